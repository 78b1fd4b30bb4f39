//! A network interface as a source of packets, through libpcap.
//!
//! libpcap is used to capture and to compile BPF filters, and for nothing else. This code does not
//! rely on its read timeout, which since 1.10 does not end a read on an idle interface of Linux.
//! The capture is non-blocking, and this code waits with `poll`.

mod privileges;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::{env, fmt};

use anyhow::{Context, anyhow, bail};
use pcap::{Active, Capture, Device, Precision};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Item, Source};
use crate::capture::{LinkType, Packet, PacketNumber, Time};

pub use self::privileges::{Environment, User, drop_privileges};

/// The time for which `next` waits for a packet before it returns [`Item::Idle`].
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Milliseconds for which the kernel may gather packets unless immediate delivery was requested.
const GATHER: i32 = 20;

/// The Linux pseudo-interface that captures on all interfaces.
const ANY: &str = "any";

/// The interface to capture from, and the settings of the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// The interface's name. On Linux `any` means all interfaces.
    pub interface: String,
    /// A BPF expression (pcap-filter(7)); `None` captures every packet.
    pub filter: Option<String>,
    /// Whether packets for other machines are captured too.
    pub promiscuous: bool,
    /// Bytes of the kernel's buffer, which holds the packets that arrive while this
    /// program is busy.
    pub buffer_size: usize,
    /// The largest number of bytes captured of each packet.
    pub snaplen: u32,
    /// Whether each packet is delivered as it comes. Otherwise the kernel gathers packets for up
    /// to 20 ms and packs them closely. Measured on `lo`: 64 MiB hold 82,000 packets of 200
    /// bytes, but only 511 in immediate mode. There each packet takes a slot that is large
    /// enough for the longest one.
    pub immediate: bool,
}

impl Default for LiveOptions {
    /// All packets on all interfaces, with room for a burst. The longest packets are those that the
    /// kernel has assembled from segments: 64 KiB, more on new kernels.
    fn default() -> LiveOptions {
        LiveOptions {
            interface: ANY.into(),
            filter: None,
            promiscuous: false,
            buffer_size: 64 << 20,
            snaplen: 262_144,
            immediate: false,
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, for [`LiveOptions::interface`].
    pub name: String,
    /// The system's description of it.
    pub description: Option<String>,
    /// Its network addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it can carry packets now.
    pub running: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
}

/// Counters since the capture began. Drops are counted as far as the system counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that were delivered. The counter of libpcap counts packets of the loopback interface
    /// twice, as they leave and as they arrive.
    pub captured: u64,
    /// Packets dropped because the kernel's buffer was full.
    pub dropped: u64,
    /// Packets dropped by the interface or its driver.
    pub dropped_by_interface: u64,
}

/// An open capture on an interface.
pub struct Live {
    capture: Capture<Active>,
    interface: String,
    link: LinkType,
    packets: u64,
    bytes: u64,
    /// The kernel's buffer was empty: wait before the next read.
    drained: bool,
}

impl Live {
    /// Opens the interface and begins to capture.
    ///
    /// # Errors
    /// There is no such interface (the message lists those that exist), the permission is missing
    /// (the message tells how to get it), or the filter is not valid BPF.
    pub fn open(options: &LiveOptions) -> anyhow::Result<Live> {
        let LiveOptions { interface, filter, .. } = options;
        let capture = activate(options).map_err(|error| explain(interface, &error))?;
        let mut capture = capture.setnonblock().with_context(|| format!("cannot capture on {interface}"))?;
        if let Some(filter) = filter {
            capture.filter(filter, true).map_err(|error| {
                let error = reason(&error);
                anyhow!("`{filter}` is not a capture filter: {error}; such filters look like `tcp port 8080`, see pcap-filter(7)")
            })?;
        }
        let link = link_type(capture.get_datalink().0).with_context(|| {
            format!("cannot capture on {interface}: capture files have no link type for its packets")
        })?;
        Ok(Live { capture, interface: interface.clone(), link, packets: 0, bytes: 0, drained: true })
    }

    /// Whether packets can be read now.
    pub fn has_packets(&self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        !self.drained || poll(&mut [PollFd::new(&self.capture.as_fd(), PollFlags::IN)], Some(&AT_ONCE)) == Ok(1)
    }

    /// Packets captured and dropped so far.
    pub fn statistics(&mut self) -> anyhow::Result<Statistics> {
        let statistics =
            self.capture.stats().with_context(|| format!("cannot read the counters of {}", self.interface))?;
        Ok(Statistics {
            captured: self.packets,
            dropped: statistics.dropped.into(),
            dropped_by_interface: statistics.if_dropped.into(),
        })
    }
}

impl Source for Live {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if self.drained {
            match poll(&mut [PollFd::new(&self.capture.as_fd(), PollFlags::IN)], Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => return Ok(Some(Item::Idle)),
                Ok(_) => self.drained = false,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot wait for packets on {}", self.interface));
                }
            }
        }
        let packet = match self.capture.next_packet() {
            Ok(packet) => packet,
            Err(pcap::Error::TimeoutExpired) => {
                self.drained = true;
                return Ok(Some(Item::Idle));
            }
            Err(error) => bail!("the capture on {} failed: {}", self.interface, reason(&error)),
        };
        self.packets += 1;
        self.bytes += packet.data.len() as u64;
        Ok(Some(Item::Packet(Packet {
            number: PacketNumber(self.packets),
            time: time(packet.header.ts.tv_sec as i64, packet.header.ts.tv_usec as i64),
            link: self.link,
            interface: 0,
            original_length: packet.header.len,
            data: packet.data,
        })))
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.bytes, None)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("interface", &self.interface).field("link", &self.link).finish_non_exhaustive()
    }
}

/// The interfaces on which libpcap can capture, the most likely one first.
pub fn interfaces() -> anyhow::Result<Vec<Interface>> {
    let devices = Device::list().context("cannot list the network interfaces")?;
    let interface = |device: Device| Interface {
        addresses: device.addresses.iter().map(|address| address.addr).collect(),
        up: device.flags.is_up(),
        running: device.flags.is_running(),
        loopback: device.flags.is_loopback(),
        name: device.name,
        description: device.desc,
    };
    Ok(devices.into_iter().map(interface).collect())
}

fn activate(options: &LiveOptions) -> Result<Capture<Active>, pcap::Error> {
    let bounded = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
    Capture::from_device(options.interface.as_str())?
        // `any` has no promiscuous mode, and its warning would be taken for an error.
        .promisc(options.promiscuous && options.interface != ANY)
        .snaplen(bounded(options.snaplen as usize))
        .buffer_size(bounded(options.buffer_size))
        .immediate_mode(options.immediate)
        .timeout(GATHER)
        .precision(Precision::Nano)
        .open()
}

/// The cause of a failure, and the remedy. libpcap's errors are only text, so the interface is
/// looked up to be sure.
fn explain(interface: &str, error: &pcap::Error) -> anyhow::Error {
    let names: Vec<String> = interfaces().unwrap_or_default().into_iter().map(|known| known.name).collect();
    let text = reason(error);
    if !names.is_empty() && !names.iter().any(|name| name == interface) {
        anyhow!("there is no interface `{interface}` to capture on; there are: {}", names.join(", "))
    } else if ["permission", "not permitted"].iter().any(|words| text.to_lowercase().contains(words)) {
        let program = env::current_exe().map_or_else(|_| "mcptap".into(), |path| path.display().to_string());
        anyhow!("no permission to capture on {interface}: {}", permission(&program))
    } else {
        anyhow!("cannot capture on {interface}: {text}")
    }
}

/// Instructions for getting the permission to capture.
fn permission(program: &str) -> String {
    if cfg!(target_os = "linux") {
        format!("run it with sudo, or grant it once: sudo setcap cap_net_raw,cap_net_admin=eip {program}")
    } else {
        "run it with sudo, or make /dev/bpf* readable for yourself (Wireshark's ChmodBPF does)".into()
    }
}

/// libpcap's text, without the name of the error variant that contains it.
fn reason(error: &pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The LINKTYPE of files that corresponds to a DLT of this system's libpcap.
/// Nearly all have the same number. Those below 104 whose numbers differ between
/// systems do not (<https://www.tcpdump.org/linktypes.html>).
fn link_type(dlt: i32) -> Option<LinkType> {
    match dlt {
        // DLT_ATM_RFC1483
        11 => Some(LinkType(100)),
        // DLT_RAW, which OpenBSD numbers 14, and DLT_LOOP, which it numbers 12.
        12 if cfg!(target_os = "openbsd") => Some(LinkType::LOOP),
        14 if cfg!(target_os = "openbsd") => Some(LinkType::RAW),
        12 => Some(LinkType::RAW),
        other => u16::try_from(other).ok().map(LinkType),
    }
}

/// The time of a packet captured with nanosecond precision. The second member
/// counts nanoseconds then.
fn time(seconds: i64, nanoseconds: i64) -> Time {
    Time(seconds.saturating_mul(1_000_000_000)).plus(nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// A capture on the loopback interface, or `None` if the permission is missing.
    fn loopback(filter: &str) -> Option<Live> {
        let name = interfaces().ok()?.into_iter().find(|interface| interface.loopback)?.name;
        let options = LiveOptions { interface: name, filter: Some(filter.into()), ..LiveOptions::default() };
        match Live::open(&options) {
            Err(error) if error.to_string().contains("no permission") => {
                assert!(
                    !cfg!(target_os = "linux")
                        || error.to_string().contains("sudo setcap cap_net_raw,cap_net_admin=eip /")
                );
                eprintln!("skipped: {error}");
                None
            }
            opened => Some(opened.unwrap()),
        }
    }

    #[test]
    fn packets_of_the_loopback_interface_come_as_they_were_sent() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let Some(mut live) = loopback(&format!("udp dst port {}", address.port())) else { return };
        assert!(matches!(live.next().unwrap(), Some(Item::Idle)), "nothing was sent yet");
        // The third message is longer than the MTU of other links. The snap length must hold it.
        let messages = [b"one".to_vec(), b"two".to_vec(), vec![b'x'; 60_000]];
        for message in &messages {
            socket.send_to(message, address).unwrap();
        }
        let mut before = Time(1_600_000_000_000_000_000);
        let mut idle = 0;
        for (index, message) in messages.iter().enumerate() {
            loop {
                match live.next().unwrap() {
                    Some(Item::Packet(packet)) => {
                        assert_eq!(packet.number, PacketNumber(index as u64 + 1));
                        assert!(packet.data.ends_with(message));
                        assert_eq!(packet.original_length as usize, packet.data.len());
                        assert!(packet.time >= before);
                        before = packet.time;
                        break;
                    }
                    Some(Item::Idle) if idle < 200 => idle += 1,
                    other => panic!("expected packet {index}, got {other:?}"),
                }
            }
        }
        assert!(live.link == LinkType::ETHERNET || live.link == LinkType::NULL);
        assert_eq!(live.statistics().unwrap().dropped, 0);
        assert!(live.progress().0 > 60_000);
    }

    #[test]
    fn errors_say_what_to_do() {
        let options = LiveOptions { interface: "no-such-interface".into(), ..LiveOptions::default() };
        let error = Live::open(&options).unwrap_err().to_string();
        assert!(error.starts_with("there is no interface `no-such-interface` to capture on; there are: "), "{error}");
        for interface in interfaces().unwrap() {
            assert!(error.contains(&interface.name), "{error}");
        }
        assert!(permission("/usr/bin/mcptap").contains("sudo"));
        if loopback("tcp").is_some() {
            let interface = interfaces().unwrap().into_iter().find(|interface| interface.loopback).unwrap().name;
            let options = LiveOptions { interface, filter: Some("tcp prot 80".into()), ..LiveOptions::default() };
            let error = Live::open(&options).unwrap_err().to_string();
            assert!(error.starts_with("`tcp prot 80` is not a capture filter: "), "{error}");
        }
    }

    #[test]
    fn all_interfaces_may_be_captured_at_once_on_linux() {
        if !cfg!(target_os = "linux") || loopback("tcp").is_none() {
            return;
        }
        let live = Live::open(&LiveOptions { promiscuous: true, immediate: true, ..LiveOptions::default() }).unwrap();
        assert!([LinkType::LINUX_SLL, LinkType::LINUX_SLL2].contains(&live.link));
    }

    #[test]
    fn link_types_are_those_of_files() {
        let files = [0, 1, 11, 12, 113, 276].map(|dlt| link_type(dlt).unwrap());
        let expected = [
            LinkType::NULL,
            LinkType::ETHERNET,
            LinkType(100),
            LinkType::RAW,
            LinkType::LINUX_SLL,
            LinkType::LINUX_SLL2,
        ];
        assert_eq!(files, expected);
        assert_eq!(link_type(-1), None);
        assert_eq!(time(3, 7), Time(3_000_000_007));
    }
}
