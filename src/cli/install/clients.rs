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
    /// The folder for configurations: `~/.config`, or `~/Library/Application Support` on macOS.
    Config(&'static str),
    /// The working directory, which may be that of a project.
    Project(&'static str),
}

use Location::{Config, Home, Project};

/// All known clients.
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

/// The folders that contain configurations.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The home folder.
    pub home: PathBuf,
    /// The folder for configurations of applications.
    pub config: PathBuf,
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
        let path = |base: &Location| {
            let (folder, path): (&Path, &str) = match base {
                Home(path) => (&folders.home, path),
                Config(path) => (&folders.config, path),
                Project(path) => (&folders.project, path),
            };
            folder.join(path)
        };
        let mut paths: Vec<PathBuf> = self.files.iter().map(path).collect();
        // In the home folder the file of the project may be the same as that of the user.
        paths.dedup();
        paths
    }
}
