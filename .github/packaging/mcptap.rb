# The formula for Homebrew. A release replaces the version and the checksum.
class Mcptap < Formula
  desc "Wireshark for MCP, with replay"
  homepage "https://github.com/mcptap/mcptap"
  url "https://github.com/mcptap/mcptap/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  uses_from_macos "libpcap"

  def install
    system "cargo", "install", "--features", "full", *std_cargo_args
    system "cargo", "run", "--locked", "--release", "--features", "full", "--example", "package-files", "--", "files"
    man1.install Dir["files/man/*.1"]
    generate_completions_from_executable(bin/"mcptap", "completions")
  end

  test do
    assert_match "never answered tools/call get_weather", shell_output("#{bin}/mcptap demo --text")
  end
end
