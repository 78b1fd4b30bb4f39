//! The examples at the end of each `--help`. A test parses every one of them.

pub const READ: &str = "Examples:
  mcptap read capture.pcapng
  mcptap read capture.pcapng --filter failed
  mcptap read a.pcap b.pcap --save
  tcpdump -w - -i lo | mcptap read -";

#[cfg(feature = "live")]
pub const SNIFF: &str = "Examples:
  sudo mcptap sniff -i lo
  sudo mcptap sniff -i any -f 'tcp port 8080' -w traffic.pcapng
  sudo mcptap sniff -i any --keys-from node
  mcptap sniff --list-interfaces";

pub const WRAP: &str = "Examples:
  mcptap wrap --name files -- npx -y @modelcontextprotocol/server-filesystem /tmp
  mcptap wrap --name files --prune-older 30d --prune-over 2G -- python server.py

Then \"mcptap show latest --follow\" in another terminal shows the messages.";

#[cfg(all(feature = "attach", target_os = "linux"))]
pub const ATTACH: &str = "Examples:
  mcptap attach --list
  sudo mcptap attach 4711
  sudo mcptap attach server-everything

Nothing is restarted. Only the named processes, and the children that they start later, are watched
(docs/attach.md).";

#[cfg(all(feature = "attach", target_os = "linux"))]
pub const RUN: &str = "Examples:
  sudo mcptap run -- node client.js
  sudo mcptap run -- my-agent --model x

The client runs as you, also under sudo. Without rights only STDIO servers that it starts by name
are recorded (docs/run.md).";

#[cfg(feature = "http")]
pub const PROXY: &str = "Examples:
  mcptap proxy --listen 9000 --to http://127.0.0.1:8080/mcp
  mcptap proxy --listen 9000 --to https://mcp.example.com/mcp --name example
  mcptap proxy --intercept mcp.example.com
  mcptap proxy --stdio --to https://mcp.example.com/mcp";

#[cfg(feature = "http")]
pub const CA: &str = "Examples:
  mcptap ca";

#[cfg(feature = "tui")]
pub const TUI: &str = "Examples:
  mcptap
  mcptap capture.pcapng
  mcptap tui latest --theme light";

#[cfg(feature = "http")]
pub const WEB: &str = "Examples:
  mcptap web
  mcptap web 7 --no-open
  mcptap web capture.pcapng --listen 8080";

pub const SESSIONS: &str = "Examples:
  mcptap sessions
  mcptap sessions --filter 'tool = add and failed'
  mcptap sessions --sort fail --limit 10";

pub const SHOW: &str = "Examples:
  mcptap show
  mcptap show 7 --message 12
  mcptap show latest --follow
  mcptap show capture.pcapng --filter 'tool = add or failed'
  mcptap show 7 --summary";

pub const LAYERS: &str = "Examples:
  mcptap layers capture.pcapng
  mcptap layers 7 --message 12";

pub const EXPORT: &str = "Examples:
  mcptap export -o session.html
  mcptap export 7 -o session.pcapng
  mcptap export capture.pcapng --format jsonl --filter failed
  mcptap export mcptap.db --dataset /srv/mcp";

#[cfg(feature = "parquet")]
pub const SHIP: &str = "Examples:
  mcptap ship --dataset s3://captures/mcp --every 5m
  mcptap ship --dataset /srv/mcp --once --no-text";

#[cfg(feature = "parquet")]
pub const DATASET: &str = "Examples:
  mcptap dataset compact s3://captures/mcp";

pub const SPLIT: &str = "Examples:
  mcptap split host=web1/*.pcap host=web2/*.pcap --into 8 --out parts";

pub const REPLAY: &str = "Examples:
  mcptap replay 7
  mcptap replay 7 -- python server.py
  mcptap replay 7 --to http://127.0.0.1:8080/mcp --calibrate
  mcptap replay 7 --dry-run";

pub const MOCK: &str = "Examples:
  mcptap mock 7
  mcptap mock capture.pcapng --listen 9000";

pub const MCP: &str = "Examples:
  mcptap mcp
  mcptap mcp --listen 8765

With --listen each request needs the bearer token of $MCPTAP_TOKEN, or the one that is printed.";

pub const DIFF: &str = "Examples:
  mcptap diff 7 8
  mcptap diff old.pcapng new.pcapng --format junit";

pub const CHECK: &str = "Examples:
  mcptap check
  mcptap check capture.pcapng --fail-on warning
  mcptap check 7 --expect 'some tool = get_weather'
  mcptap check 7 --format sarif";

pub const EXPLAIN: &str = "Examples:
  mcptap explain
  mcptap explain capture.pcapng
  mcptap explain 12 --symptom never-called

Exit status: 1 if a cause was found, 0 if not.";

pub const RULES: &str = "Examples:
  mcptap rules
  mcptap rules request-given-up";

pub const DELETE: &str = "Examples:
  mcptap delete 4 5
  mcptap delete --before 30d
  mcptap delete --larger 500M --before 2w --yes";

pub const PIN: &str = "Examples:
  mcptap pin 4 5
  mcptap pin --unpin 5";

pub const INSTALL: &str = "Examples:
  mcptap install
  mcptap install cursor --dry-run
  mcptap install claude-desktop files
  mcptap install --self cursor";

pub const UNINSTALL: &str = "Examples:
  mcptap uninstall
  mcptap uninstall cursor
  mcptap uninstall --self cursor";

pub const DEMO: &str = "Examples:
  mcptap demo
  mcptap demo --text";

pub const MASK: &str = "Examples:
  mcptap mask
  mcptap mask recordings.db --yes";

pub const DOCTOR: &str = "Examples:
  mcptap doctor
  mcptap doctor --db recordings.db";

pub const INDEX: &str = "Examples:
  mcptap index
  mcptap --db recordings.db index";

#[cfg(feature = "live")]
pub const WIRESHARK: &str = "Examples:
  mcptap wireshark install
  mcptap wireshark uninstall";

pub const COMPLETIONS: &str = "Examples:
  mcptap completions bash > ~/.local/share/bash-completion/completions/mcptap
  mcptap completions zsh > ~/.zfunc/_mcptap";

#[cfg(all(test, feature = "tui"))]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::args::Arguments;
    use crate::cli::with_command;
    use crate::view::command_line;

    #[test]
    fn every_command_has_examples_and_each_is_accepted() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert!(help.starts_with("Examples:\n  ") && !examples.is_empty(), "{}", command.get_name());
            for example in examples {
                let own = example.rsplit("| ").next().and_then(|rest| rest.split(" > ").next()).unwrap_or_default();
                let own = own.strip_prefix("sudo ").unwrap_or(own);
                let words = command_line::words(own).expect("all quotes are closed");
                let words = with_command(words.into_iter().map(Into::into).collect());
                if let Err(error) = Arguments::try_parse_from(words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
