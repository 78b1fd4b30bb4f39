//! Where clients keep which servers they use.

use std::path::{Path, PathBuf};

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// What it is called on the command line.
    pub id: &'static str,
    /// Its configurations, from the most general one on.
    files: &'static [Base],
}

/// A path below a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The home folder.
    Home(&'static str),
    /// The folder of configurations: `~/.config`, or `~/Library/Application Support` of macOS.
    Config(&'static str),
    /// The working directory, where it is that of a project.
    Project(&'static str),
}

use Base::{Config, Home, Project};

/// The clients that are known.
pub const CLIENTS: &[Client] = &[
    Client { id: "claude-code", files: &[Home(".claude.json"), Project(".mcp.json")] },
    Client { id: "claude-desktop", files: &[Config("Claude/claude_desktop_config.json")] },
    Client {
        id: "cline",
        files: &[Config("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")],
    },
    Client { id: "codex", files: &[Home(".codex/config.toml"), Project(".codex/config.toml")] },
    Client { id: "copilot", files: &[Home(".copilot/mcp-config.json")] },
    Client { id: "cursor", files: &[Home(".cursor/mcp.json"), Project(".cursor/mcp.json")] },
    Client { id: "gemini", files: &[Home(".gemini/settings.json"), Project(".gemini/settings.json")] },
    Client { id: "kiro", files: &[Home(".kiro/settings/mcp.json"), Project(".kiro/settings/mcp.json")] },
    Client { id: "lm-studio", files: &[Home(".lmstudio/mcp.json")] },
    Client { id: "vscode", files: &[Config("Code/User/mcp.json"), Project(".vscode/mcp.json")] },
    Client { id: "windsurf", files: &[Home(".codeium/windsurf/mcp_config.json")] },
    Client { id: "zed", files: &[Home(".config/zed/settings.json"), Project(".zed/settings.json")] },
];

/// The folders that configurations are in.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The home folder.
    pub home: PathBuf,
    /// The folder of configurations.
    pub config: PathBuf,
    /// The working directory.
    pub project: PathBuf,
}

impl Client {
    /// The client of this name.
    pub fn named(id: &str) -> Option<&'static Client> {
        CLIENTS.iter().find(|client| client.id == id)
    }

    /// Where its configurations are, if they are.
    pub fn paths(&self, folders: &Folders) -> Vec<PathBuf> {
        let path = |base: &Base| {
            let (folder, path): (&Path, &str) = match base {
                Home(path) => (&folders.home, path),
                Config(path) => (&folders.config, path),
                Project(path) => (&folders.project, path),
            };
            folder.join(path)
        };
        let mut paths: Vec<PathBuf> = self.files.iter().map(path).collect();
        // In the home folder a project's configuration may be the person's own.
        paths.dedup();
        paths
    }
}
