// The part of `mcptap attach` and `mcptap sniff --keys-from` that runs in the kernel.
//
// It watches only processes that user space has named. It copies what they read and write through
// certain pipes and sockets, and what certain functions of TLS libraries take and return. It decides
// nothing else. `build.sh` compiles it; the object file is checked in beside it.
//
//   raw_tp/sys_exit             after a system call: bytes read and written
//   raw_tp/sched_process_fork   children of a watched process are watched too
//   raw_tp/sched_process_exit   the end of a watched process
//   raw_tp/sched_process_exec   a program that a watched client starts, if it may be a server
//   uprobe/*                    functions of TLS libraries, in one process (tls.bpf.h)
//
// System calls and exported functions keep their meaning over the years. Names inside the kernel do
// not. The few members of its structures that are read here are found by their names (CO-RE).

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The members that are read, and no others.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
};
struct file {
	struct inode *f_inode;
	void *private_data;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
typedef struct {
	int counter;
} atomic_t;
struct signal_struct {
	atomic_t live;
	int group_exit_code;
};
struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
};
struct in6_addr {
	unsigned char in6_u[16];
};
struct sock_common {
	unsigned short skc_family;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};
struct sock {
	struct sock_common __sk_common;
};
struct socket {
	struct sock *sk;
};
struct task_struct {
	int tgid;
	int exit_code;
	struct task_struct *real_parent;
	struct mm_struct *mm;
	struct files_struct *files;
	struct signal_struct *signal;
};
// x86-64. At the end of a system call its arguments are still here.
struct pt_regs {
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long sp;
};
#pragma clang attribute pop

#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFSOCK 0140000
#define MSG_PEEK 2
#define AF_INET 2
#define AF_INET6 10

enum { READ = 0, WRITE = 1, RECVFROM = 45, SENDTO = 44, SENDMSG = 46, RECVMSG = 47, READV = 19, WRITEV = 20 };
enum { CONNECT = 42, ACCEPT = 43, ACCEPT4 = 288 };
enum { SENDFILE = 40, SPLICE = 275, TEE = 276, VMSPLICE = 278, PREADV2 = 327, PWRITEV2 = 328 };

// Kinds of events. `event.rs` has the same numbers.
enum { DATA = 1, END_OF_FILE = 2, EXIT = 3, DERIVED = 4, LOGGED = 5, TEXT_READ = 6, TEXT_WRITTEN = 7, FREED = 8,
       KEY_LINE = 9 };
enum { STARTED = 16, CONNECTED = 17 };

// The head of each event in the ring.
struct event {
	__u32 kind;
	__u32 process;
	__u64 time;    // CLOCK_MONOTONIC, ns
	__u64 subject; // the channel, the status of an exit, or the `SSL` of a TLS library
	__u64 offset;  // of the first byte in its channel
	__u32 length;  // bytes that follow
	__u32 reserved;
};

#define PIECE 16384

struct piece {
	struct event event;
	__u8 data[PIECE];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} EVENTS SEC(".maps");

// How a process is watched. Its children are watched in the same way.
enum {
	PIPES = 1,  // what passes through pipes and sockets that user space has named
	CLIENT = 2, // that, the pipes of the programs that it starts, and its connections
};

// The processes that are watched, and how.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} PROCESSES SEC(".maps");

// The number of the channel, plus one, of an inode: in the lower half that of reads, in the upper
// half that of writes.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} INODES SEC(".maps");

// The bytes that passed through each channel.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} OFFSETS SEC(".maps");

// An event is built here before it goes to the ring. A program on `sys_exit` is not preempted.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct piece);
} SCRATCH SEC(".maps");

// User space looks at the ring in intervals. It is woken early only when the ring fills.
static __always_inline __u64 wakeup(void)
{
	return bpf_ringbuf_query(&EVENTS, BPF_RB_AVAIL_DATA) > (1 << 20) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline __u32 process_id(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline void head(struct event *event, __u32 kind, __u64 subject)
{
	event->kind = kind;
	event->process = process_id();
	event->time = bpf_ktime_get_ns();
	event->subject = subject;
	event->offset = 0;
	event->length = 0;
	event->reserved = 0;
}

// ---- Bytes of pipes and sockets

struct iovec {
	__u64 base;
	__u64 length;
};

// A copy of the bytes of one system call, in progress.
struct copy {
	__u64 channel;
	__u64 offset;
	__u64 time;
	__u64 left;    // bytes of the call that are not copied
	__u64 base;    // of the present buffer
	__u64 length;  // of the present buffer
	__u64 vector;  // the next buffer's description
};

static long copy_piece(__u64 index, void *context)
{
	struct copy *copy = context;
	if (copy->left == 0)
		return 1;
	if (copy->length == 0) {
		struct iovec next;
		// Without a description the rest is lost. Its length is known by the next offset.
		if (copy->vector == 0 || bpf_probe_read_user(&next, sizeof(next), (void *)copy->vector))
			return 1;
		copy->vector += sizeof(next);
		copy->base = next.base;
		copy->length = next.length;
		return 0;
	}
	__u64 length = copy->length < copy->left ? copy->length : copy->left;
	if (length > PIECE)
		length = PIECE;
	__u32 zero = 0;
	struct piece *piece = bpf_map_lookup_elem(&SCRATCH, &zero);
	if (!piece)
		return 1;
	head(&piece->event, DATA, copy->channel);
	piece->event.time = copy->time;
	piece->event.offset = copy->offset;
	piece->event.length = length;
	if (length > 0 && length <= PIECE && !bpf_probe_read_user(piece->data, length, (void *)copy->base))
		bpf_ringbuf_output(&EVENTS, piece, sizeof(struct event) + length, wakeup());
	copy->base += length;
	copy->length -= length;
	copy->left -= length;
	copy->offset += length;
	return 0;
}

// The pipe or socket behind a descriptor of this process; null for other files.
static __always_inline struct file *pipe_or_socket(__u32 descriptor, __u64 *number, __u32 *type)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return 0;
	struct file **files = BPF_CORE_READ(table, fd);
	struct file *file = 0;
	if (bpf_probe_read_kernel(&file, sizeof(file), files + descriptor) || !file)
		return 0;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	*type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (*type != S_IFIFO && *type != S_IFSOCK)
		return 0;
	*number = BPF_CORE_READ(inode, i_ino);
	return file;
}

// The channel of a descriptor of this process, plus one; 0 if it is not watched.
static __always_inline __u32 channel_of(__u32 descriptor, int writes)
{
	__u64 number;
	__u32 type;
	if (!pipe_or_socket(descriptor, &number, &type))
		return 0;
	__u64 *channels = bpf_map_lookup_elem(&INODES, &number);
	if (!channels)
		return 0;
	return writes ? *channels >> 32 : (__u32)*channels;
}

// ---- The connections of a client

struct connected {
	struct event event;
	__u8 local[16]; // addresses of IPv4 as IPv6 maps them
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port; // in network byte order
	__u32 reserved;
};

// Reports the two addresses of a TCP connection, by which its packets are known.
static __always_inline void report_connection(__u32 descriptor)
{
	__u64 number;
	__u32 type;
	struct file *file = pipe_or_socket(descriptor, &number, &type);
	if (!file || type != S_IFSOCK)
		return;
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sock = BPF_CORE_READ(socket, sk);
	if (!sock)
		return;
	struct connected connected = {};
	__u32 family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (family == AF_INET) {
		connected.local[10] = connected.local[11] = connected.remote[10] = connected.remote[11] = 0xff;
		__be32 address = BPF_CORE_READ(sock, __sk_common.skc_rcv_saddr);
		__builtin_memcpy(connected.local + 12, &address, sizeof(address));
		address = BPF_CORE_READ(sock, __sk_common.skc_daddr);
		__builtin_memcpy(connected.remote + 12, &address, sizeof(address));
	} else if (family == AF_INET6) {
		BPF_CORE_READ_INTO(&connected.local, sock, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&connected.remote, sock, __sk_common.skc_v6_daddr);
	} else {
		return;
	}
	connected.local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
	connected.remote_port = BPF_CORE_READ(sock, __sk_common.skc_dport);
	head(&connected.event, CONNECTED, number);
	connected.event.length = sizeof(connected) - sizeof(struct event);
	bpf_ringbuf_output(&EVENTS, &connected, sizeof(connected), wakeup());
}

SEC("raw_tp/sys_exit")
int sys_exit(__u64 *ctx)
{
	__u32 process = process_id();
	long result = (long)ctx[1];
	__u32 *watch = bpf_map_lookup_elem(&PROCESSES, &process);
	if (!watch)
		return 0;
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	long call = BPF_CORE_READ(regs, orig_ax);
	__u64 descriptor = BPF_CORE_READ(regs, di);
	// A call that did not block is in progress, which is an error to the caller.
	if (*watch == CLIENT && call == CONNECT)
		report_connection(descriptor);
	if (result < 0)
		return 0;
	if (*watch == CLIENT && (call == ACCEPT || call == ACCEPT4))
		report_connection(result);
	__u64 second = BPF_CORE_READ(regs, si);
	struct copy copy = {.left = result};
	int writes = 0;
	switch (call) {
	case READ:
	case WRITE:
		writes = call == WRITE;
		copy.base = second;
		copy.length = result;
		break;
	case RECVFROM:
	case SENDTO:
		writes = call == SENDTO;
		if (!writes && BPF_CORE_READ(regs, r10) & MSG_PEEK)
			return 0;
		copy.base = second;
		copy.length = result;
		break;
	case READV:
	case WRITEV:
	case PREADV2:
	case PWRITEV2:
		writes = call == WRITEV || call == PWRITEV2;
		copy.vector = second;
		break;
	case RECVMSG:
	case SENDMSG: {
		writes = call == SENDMSG;
		if (!writes && BPF_CORE_READ(regs, dx) & MSG_PEEK)
			return 0;
		// The third member of `struct msghdr` is the address of the vector.
		if (bpf_probe_read_user(&copy.vector, sizeof(copy.vector), (void *)(second + 16)))
			return 0;
		break;
	}
	// The following bytes are not in memory of the process. They are counted as lost.
	case SENDFILE:
	case VMSPLICE:
		writes = 1;
		break;
	case SPLICE:
		// From the first descriptor to the third argument's. The first may be watched for reads.
		if (channel_of(descriptor, 0) == 0) {
			descriptor = BPF_CORE_READ(regs, dx);
			writes = 1;
		}
		break;
	case TEE:
		descriptor = second;
		writes = 1;
		break;
	default:
		return 0;
	}
	__u32 channel = channel_of(descriptor, writes);
	if (channel == 0)
		return 0;
	channel -= 1;
	copy.channel = channel;
	copy.time = bpf_ktime_get_ns();
	if (result == 0) {
		// Only a read of some bytes that gives none is the end.
		if (!writes && (call == READ || call == RECVFROM) && BPF_CORE_READ(regs, dx) > 0) {
			struct event event;
			head(&event, END_OF_FILE, channel);
			__u64 *passed = bpf_map_lookup_elem(&OFFSETS, &channel);
			if (passed)
				event.offset = *passed;
			bpf_ringbuf_output(&EVENTS, &event, sizeof(event), wakeup());
		}
		return 0;
	}
	__u64 *passed = bpf_map_lookup_elem(&OFFSETS, &channel);
	if (!passed)
		return 0;
	copy.offset = __sync_fetch_and_add(passed, result);
	bpf_loop(1 << 20, copy_piece, &copy, 0);
	return 0;
}

// ---- The life of processes

SEC("raw_tp/sched_process_fork")
int process_fork(__u64 *ctx)
{
	__u32 process = process_id();
	__u32 *watch = bpf_map_lookup_elem(&PROCESSES, &process);
	if (!watch)
		return 0;
	__u32 same = *watch;
	struct task_struct *child = (struct task_struct *)ctx[1];
	__u32 forked = BPF_CORE_READ(child, tgid);
	if (forked != process)
		bpf_map_update_elem(&PROCESSES, &forked, &same, BPF_ANY);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int process_exit(__u64 *ctx)
{
	__u32 process = process_id();
	struct task_struct *task = (struct task_struct *)ctx[0];
	if (!bpf_map_lookup_elem(&PROCESSES, &process) || BPF_CORE_READ(task, signal, live.counter) != 0)
		return 0;
	struct event event;
	head(&event, EXIT, BPF_CORE_READ(task, exit_code));
	int of_group = BPF_CORE_READ(task, signal, group_exit_code);
	if (of_group)
		event.subject = of_group;
	bpf_map_delete_elem(&PROCESSES, &process);
	bpf_ringbuf_output(&EVENTS, &event, sizeof(event), wakeup());
	return 0;
}

// The number of programs so far that a client started with pipes or sockets as standard streams.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} STARTS SEC(".maps");

#define ARGUMENTS 4096
// The number of a program whose streams were known.
#define KNOWN (~0ULL)

// What follows the head of a start.
struct started {
	__u64 inodes[3]; // 0 for a stream that is not recorded
	__u8 arguments[ARGUMENTS];
};

// A program begins that a client started. Before it can read or write, its standard streams get
// channels: three times its number, plus the number of the stream.
SEC("raw_tp/sched_process_exec")
int process_exec(__u64 *ctx)
{
	__u32 process = process_id(), zero = 0, type;
	__u32 *watch = bpf_map_lookup_elem(&PROCESSES, &process);
	if (!watch || *watch != CLIENT)
		return 0;
	__u64 in, out, err = 0;
	if (!pipe_or_socket(0, &in, &type) || !pipe_or_socket(1, &out, &type))
		return 0;
	__u64 *starts = bpf_map_lookup_elem(&STARTS, &zero);
	struct piece *piece = bpf_map_lookup_elem(&SCRATCH, &zero);
	if (!starts || !piece)
		return 0;
	__u64 start = KNOWN;
	// A launcher's server has its streams, which have channels. The client's own are known too.
	if (!bpf_map_lookup_elem(&INODES, &in) && !bpf_map_lookup_elem(&INODES, &out)) {
		if (!pipe_or_socket(2, &err, &type) || err == in || err == out || bpf_map_lookup_elem(&INODES, &err))
			err = 0;
		start = __sync_fetch_and_add(starts, 1);
		__u64 first = 3 * start + 1;
		__u32 last = 3 * start + 2;
		// All channels are in use.
		if (start >= 1 << 30 || !bpf_map_lookup_elem(&OFFSETS, &last))
			return 0;
		__u64 channels = in == out ? (first + 1) << 32 | first : first;
		bpf_map_update_elem(&INODES, &in, &channels, BPF_ANY);
		channels = (first + 1) << 32;
		if (in != out)
			bpf_map_update_elem(&INODES, &out, &channels, BPF_ANY);
		channels = (first + 2) << 32;
		if (err)
			bpf_map_update_elem(&INODES, &err, &channels, BPF_ANY);
	}
	struct task_struct *task = (void *)bpf_get_current_task();
	head(&piece->event, STARTED, start);
	piece->event.offset = BPF_CORE_READ(task, real_parent, tgid);
	struct started *started = (void *)piece->data;
	started->inodes[0] = in;
	started->inodes[1] = out;
	started->inodes[2] = err;
	__u64 arguments = BPF_CORE_READ(task, mm, arg_start);
	__u64 length = BPF_CORE_READ(task, mm, arg_end) - arguments;
	if (length > ARGUMENTS)
		length = ARGUMENTS;
	if (length == 0 || bpf_probe_read_user(started->arguments, length, (void *)arguments))
		length = 0;
	piece->event.length = sizeof(started->inodes) + length;
	__u64 size = sizeof(struct event) + sizeof(started->inodes) + length;
	if (size <= sizeof(struct event) + sizeof(struct started))
		bpf_ringbuf_output(&EVENTS, piece, size, wakeup());
	return 0;
}

#include "tls.bpf.h"
