//! What the command line of a process tells about it.

/// Programs that start servers: a word of their command names the server.
pub const LAUNCHERS: [&str; 15] = [
    "npx", "npm", "node", "bun", "bunx", "deno", "pnpm", "yarn", "uv", "uvx", "pipx", "python", "docker", "podman",
    "java",
];

/// Programs whose command contains that of another program.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "fish", "env", "sudo"];

/// Endings of scripts and archives. The words behind such a file are arguments of it.
const SCRIPTS: [&str; 9] = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".py", ".pyz", ".jar"];

/// Whether a command names MCP by its program, or by its first argument: a subcommand, or a module.
/// Of launchers and shells each word counts, up to the script: it can be the package, the image or
/// the command. Arguments of other programs tell nothing: a compiler, for example, has the name
/// of its target there.
pub fn names_mcp(command: &[String]) -> bool {
    let name = command.first().map_or("", |word| program(word));
    // "python3.12"
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let words = match LAUNCHERS.contains(&name) || SHELLS.contains(&name) {
        true => {
            let is_script = |word: &String| SCRIPTS.iter().any(|ending| word.ends_with(ending));
            command.iter().skip(1).position(is_script).map_or(command.len(), |at| at + 2)
        }
        false => command.len().min(2),
    };
    command[..words].iter().any(|word| word_names_mcp(word))
}

/// Whether a word of a command names MCP.
pub fn word_names_mcp(word: &str) -> bool {
    // The name of this program tells nothing about what it runs.
    let word = word.to_ascii_lowercase().replace("mcptap", "");
    word.contains("mcp") || word.contains("modelcontextprotocol")
}

/// The file name of a program, without the folder.
pub fn program(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_mcp_by_its_program_or_script_and_not_by_any_argument() {
        let names = |command: &str| names_mcp(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for server in [
            "/usr/local/bin/mcp-server-time --local-timezone UTC",
            "npx -y @modelcontextprotocol/server-everything",
            "sh -c mcp-server-everything",
            "node --inspect /srv/mcp/dist/index.js",
            "/opt/venv/bin/python3.12 -m mcp_server_time",
            "uv run --directory /srv mcp-server-time",
            "docker run -i --rm mcp/time",
            "uvicorn mcp:app",
            "agent mcp serve",
        ] {
            assert!(names(server), "{server}");
        }
        for other in [
            "rustc --crate-name mcp_tools --edition=2021 src/lib.rs",
            "/usr/bin/rustc --crate-name mcptap src/main.rs",
            "cc -c mcp.c",
            "cargo build -p mcp-tools",
            "python3 train.py --data mcp.json",
            "node build.js mcp",
            "mcptap wrap -- cat",
            "",
        ] {
            assert!(!names(other), "{other}");
        }
    }
}
