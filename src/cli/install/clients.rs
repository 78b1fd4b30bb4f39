//! The paths of the configuration files of known clients.

use std::path::{Path, PathBuf};

/// A client whose configuration is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client's name on the command line.
    pub id: &'static str,
    /// Its configuration files, the most general one first.
    files: &'static [Location],
}

/// A path relative to a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// The home folder.
    Home(&'static str),
    /// The folder for configurations: `~/.config`, `~/Library/Application Support` on macOS, the
    /// folder of the variable `APPDATA` on Windows.
    Config(&'static str),
    /// The folder of the variable `APPDATA`, for clients whose path on Windows is a different one.
    Windows(&'static str),
    /// The working directory, which may be that of a project.
    Project(&'static str),
}

use Location::{Config, Home, Project, Windows};

/// All known clients.
pub const CLIENTS: &[Client] = &[
    Client { id: "claude-code", files: &[Home(".claude.json"), Project(".mcp.json")] },
    Client { id: "claude-desktop", files: &[Config("Claude/claude_desktop_config.json")] },
    Client {
        id: "cline",
        files: &[Config("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")],
    },
    Client { id: "codex", files: &[Home(".codex/config.toml"), Project(".codex/config.toml")] },
    Client { id: "continue", files: &[Home(".continue/config.yaml")] },
    Client { id: "copilot", files: &[Home(".copilot/mcp-config.json")] },
    Client { id: "cursor", files: &[Home(".cursor/mcp.json"), Project(".cursor/mcp.json")] },
    Client { id: "gemini", files: &[Home(".gemini/settings.json"), Project(".gemini/settings.json")] },
    Client { id: "goose", files: &[Home(".config/goose/config.yaml"), Windows("Block/goose/config/config.yaml")] },
    Client { id: "kiro", files: &[Home(".kiro/settings/mcp.json"), Project(".kiro/settings/mcp.json")] },
    Client { id: "lm-studio", files: &[Home(".lmstudio/mcp.json")] },
    Client {
        id: "opencode",
        files: &[
            Home(".config/opencode/opencode.json"),
            Home(".config/opencode/opencode.jsonc"),
            Project("opencode.json"),
            Project("opencode.jsonc"),
            Project(".opencode/opencode.json"),
            Project(".opencode/opencode.jsonc"),
        ],
    },
    Client { id: "vscode", files: &[Config("Code/User/mcp.json"), Project(".vscode/mcp.json")] },
    Client { id: "vscode-insiders", files: &[Config("Code - Insiders/User/mcp.json"), Project(".vscode/mcp.json")] },
    Client { id: "vscodium", files: &[Config("VSCodium/User/mcp.json"), Project(".vscode/mcp.json")] },
    Client { id: "windsurf", files: &[Home(".codeium/windsurf/mcp_config.json")] },
    Client {
        id: "zed",
        files: &[Home(".config/zed/settings.json"), Windows("Zed/settings.json"), Project(".zed/settings.json")],
    },
];

/// The folders that contain configurations.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The home folder.
    pub home: PathBuf,
    /// The folder for configurations of applications.
    pub config: PathBuf,
    /// The folder of the variable `APPDATA`, which Windows sets.
    pub windows: Option<PathBuf>,
    /// The working directory.
    pub project: PathBuf,
}

impl Client {
    /// The client of this name.
    pub fn named(id: &str) -> Option<&'static Client> {
        CLIENTS.iter().find(|client| client.id == id)
    }

    /// The paths of its configuration files. They need not exist.
    pub fn paths(&self, folders: &Folders) -> Vec<PathBuf> {
        let windows = folders.windows.as_deref();
        let path = |base: &Location| {
            let (folder, path): (&Path, &str) = match base {
                Home(path) => (&folders.home, path),
                Config(path) => (windows.unwrap_or(&folders.config), path),
                Windows(path) => (windows?, path),
                Project(path) => (&folders.project, path),
            };
            Some(folder.join(path))
        };
        let mut paths: Vec<PathBuf> = self.files.iter().filter_map(path).collect();
        // In the home folder the file of the project may be the same as that of the user.
        paths.dedup();
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_has_its_own_folder() {
        let folders = |windows: Option<&str>| Folders {
            home: "/home/me".into(),
            config: "/home/me/.config".into(),
            windows: windows.map(PathBuf::from),
            project: "/project".into(),
        };
        let paths = |client: &str, windows| {
            let paths = Client::named(client).unwrap().paths(&folders(windows)).into_iter();
            paths.map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths("goose", None), ["/home/me/.config/goose/config.yaml"]);
        assert_eq!(paths("goose", Some("/roaming"))[1], "/roaming/Block/goose/config/config.yaml");
        assert_eq!(paths("vscodium", Some("/roaming"))[0], "/roaming/VSCodium/User/mcp.json");
        assert_eq!(paths("vscodium", None), ["/home/me/.config/VSCodium/User/mcp.json", "/project/.vscode/mcp.json"]);
    }
}
