// Functions of TLS libraries: the text above TLS, and the secrets. A part of `probe.bpf.c`.
//
// The first arguments of a function on x86-64 are in di, si, dx and cx.

// ---- Text above TLS: what SSL_read, SSL_write and their `_ex` forms gave and took

// A call that has not returned.
struct ssl_call {
	__u64 ssl;
	__u64 buffer;
	__u64 count; // address of the number of bytes; 0 if the function returns it
};

// By thread. A call that derives a secret is found here too.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct ssl_call);
} SSL_CALLS SEC(".maps");

struct ssl_key {
	__u64 ssl;
	__u64 process;
};

// Bytes of text that passed: read, written.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ssl_key);
	__type(value, __u64[2]);
} TEXTS SEC(".maps");

struct freed {
	struct event event;
	__u64 passed[2];
};

// A copy of the text of one call, in progress.
struct text {
	__u64 ssl;
	__u64 offset;
	__u64 time;
	__u64 left;
	__u64 base;
	__u32 kind;
};

// Most calls carry less.
#define SHORT 1024

// A function's program can be preempted, so each piece is built in the ring itself.
#define PUT_TEXT(text, size, room)                                                                   \
	do {                                                                                         \
		struct piece *piece = bpf_ringbuf_reserve(&EVENTS, sizeof(struct event) + (room), 0);  \
		if (!piece)                                                                          \
			break;                                                                       \
		head(&piece->event, (text)->kind, (text)->ssl);                                      \
		piece->event.time = (text)->time;                                                    \
		piece->event.offset = (text)->offset;                                                \
		piece->event.length = (size);                                                        \
		if (bpf_probe_read_user(piece->data, (size), (void *)(text)->base))                  \
			bpf_ringbuf_discard(piece, BPF_RB_NO_WAKEUP);                                \
		else                                                                                 \
			bpf_ringbuf_submit(piece, wakeup());                                         \
	} while (0)

static long copy_text(__u64 index, void *context)
{
	struct text *text = context;
	__u64 length = text->left;
	if (length == 0)
		return 1;
	if (length <= SHORT) {
		PUT_TEXT(text, length, SHORT);
	} else {
		if (length > PIECE)
			length = PIECE;
		PUT_TEXT(text, length, PIECE);
	}
	text->base += length;
	text->offset += length;
	text->left -= length;
	return 0;
}

static __always_inline int ssl_begin(struct pt_regs *regs, __u64 count)
{
	struct ssl_call call = {.ssl = regs->di, .buffer = regs->si, .count = count};
	__u64 thread = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&SSL_CALLS, &thread, &call, BPF_ANY);
	return 0;
}

static __always_inline int ssl_end(struct pt_regs *regs, int writes)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct ssl_call *found = bpf_map_lookup_elem(&SSL_CALLS, &thread);
	if (!found)
		return 0;
	struct ssl_call call = *found;
	bpf_map_delete_elem(&SSL_CALLS, &thread);
	long result = (int)regs->ax;
	if (result <= 0)
		return 0;
	__u64 length = result;
	if (call.count && bpf_probe_read_user(&length, sizeof(length), (void *)call.count))
		return 0;
	struct ssl_key key = {.ssl = call.ssl, .process = thread >> 32};
	__u64 nothing[2] = {0, 0};
	bpf_map_update_elem(&TEXTS, &key, &nothing, BPF_NOEXIST);
	__u64 *passed = bpf_map_lookup_elem(&TEXTS, &key);
	if (!passed)
		return 0;
	struct text text = {.ssl = call.ssl, .left = length, .base = call.buffer, .time = bpf_ktime_get_ns()};
	text.kind = writes ? TEXT_WRITTEN : TEXT_READ;
	text.offset = writes ? __sync_fetch_and_add(&passed[1], length) : __sync_fetch_and_add(&passed[0], length);
	bpf_loop(1 << 20, copy_text, &text, 0);
	return 0;
}

// SSL_read and SSL_write return the number of bytes.
SEC("uprobe")
int ssl_call(struct pt_regs *regs)
{
	return ssl_begin(regs, 0);
}

// SSL_read_ex and SSL_write_ex store the number of bytes where the fourth argument says.
SEC("uprobe")
int ssl_call_ex(struct pt_regs *regs)
{
	return ssl_begin(regs, regs->cx);
}

SEC("uretprobe")
int ssl_read(struct pt_regs *regs)
{
	return ssl_end(regs, 0);
}

SEC("uretprobe")
int ssl_written(struct pt_regs *regs)
{
	return ssl_end(regs, 1);
}

// SSL_do_handshake derives secrets, and carries no text.
SEC("uretprobe")
int ssl_shaken(struct pt_regs *regs)
{
	__u64 thread = bpf_get_current_pid_tgid();
	bpf_map_delete_elem(&SSL_CALLS, &thread);
	return 0;
}

SEC("uprobe")
int ssl_free(struct pt_regs *regs)
{
	struct ssl_key key = {.ssl = regs->di, .process = process_id()};
	__u64 *passed = bpf_map_lookup_elem(&TEXTS, &key);
	if (!passed)
		return 0;
	struct freed freed = {.passed = {passed[0], passed[1]}};
	bpf_map_delete_elem(&TEXTS, &key);
	head(&freed.event, FREED, key.ssl);
	freed.event.length = sizeof(freed) - sizeof(freed.event);
	bpf_ringbuf_output(&EVENTS, &freed, sizeof(freed), wakeup());
	return 0;
}

// ---- Secrets of TLS

#define SECRET 64
#define PARAMETERS 12

// EVP_KDF_derive(context, out, length, parameters) of OpenSSL 3 derives every secret of TLS. Its
// parameters are in an array of OSSL_PARAM that ends with a null key.
struct parameter {
	__u64 key;
	__u64 type;
	__u64 data;
	__u64 size;
	__u64 returned;
};

struct copied_parameter {
	char key[16];
	__u32 size;
	__u8 data[SECRET];
};

struct derived {
	struct event event;
	__u32 length; // of `out`
	__u8 out[SECRET];
	struct copied_parameter parameters[PARAMETERS];
};

struct derivation {
	__u64 out;
	__u64 length;
	__u64 parameters;
};

// The arguments of the calls that have not returned, by thread.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct derivation);
} DERIVATIONS SEC(".maps");

SEC("uprobe")
int derive(struct pt_regs *regs)
{
	struct derivation call = {.out = regs->si, .length = regs->dx, .parameters = regs->cx};
	__u64 thread = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&DERIVATIONS, &thread, &call, BPF_ANY);
	return 0;
}

SEC("uretprobe")
int derived(struct pt_regs *regs)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct derivation *found = bpf_map_lookup_elem(&DERIVATIONS, &thread);
	if (!found)
		return 0;
	struct derivation call = *found;
	bpf_map_delete_elem(&DERIVATIONS, &thread);
	// 1 is success. Longer keys than any secret of TLS are not of interest, such as key blocks,
	// but their parameters are.
	if ((int)regs->ax != 1)
		return 0;
	struct derived *derived = bpf_ringbuf_reserve(&EVENTS, sizeof(*derived), 0);
	if (!derived)
		return 0;
	struct ssl_call *within = bpf_map_lookup_elem(&SSL_CALLS, &thread);
	head(&derived->event, DERIVED, within ? within->ssl : 0);
	derived->event.length = sizeof(*derived) - sizeof(struct event);
	derived->length = call.length;
	if (call.length <= SECRET)
		bpf_probe_read_user(derived->out, call.length & (SECRET * 2 - 1), (void *)call.out);
	for (int index = 0; index < PARAMETERS; index++)
		derived->parameters[index].key[0] = 0;
	for (int index = 0; index < PARAMETERS; index++) {
		struct parameter parameter;
		if (bpf_probe_read_user(&parameter, sizeof(parameter), (void *)(call.parameters + index * sizeof(parameter))) ||
		    parameter.key == 0)
			break;
		struct copied_parameter *copied = &derived->parameters[index];
		bpf_probe_read_user_str(copied->key, sizeof(copied->key), (void *)parameter.key);
		copied->size = parameter.size;
		if (parameter.size <= SECRET)
			bpf_probe_read_user(copied->data, parameter.size & (SECRET * 2 - 1), (void *)parameter.data);
	}
	bpf_ringbuf_submit(derived, BPF_RB_FORCE_WAKEUP);
	return 0;
}

struct logged {
	struct event event;
	__u32 length;
	char label[32];
	__u8 secret[SECRET];
};

// ssl_log_secret(connection, label, secret) of BoringSSL. The secret is a span: address and length.
SEC("uprobe")
int log_secret(struct pt_regs *regs)
{
	struct logged *logged = bpf_ringbuf_reserve(&EVENTS, sizeof(*logged), 0);
	if (!logged)
		return 0;
	logged->label[0] = 0;
	head(&logged->event, LOGGED, 0);
	logged->event.length = sizeof(*logged) - sizeof(struct event);
	bpf_probe_read_user_str(logged->label, sizeof(logged->label), (void *)regs->si);
	__u64 length = regs->cx;
	logged->length = length;
	if (length <= SECRET)
		bpf_probe_read_user(logged->secret, length & (SECRET * 2 - 1), (void *)regs->dx);
	bpf_ringbuf_submit(logged, BPF_RB_FORCE_WAKEUP);
	return 0;
}

struct key_line {
	__u32 length; // of the secret
	char label[32];
	__u8 secret[SECRET];
	__u8 random[32];
};

struct key_line_event {
	struct event event;
	struct key_line line;
};

// crypto/tls.(*Config).writeKeyLog(label string, clientRandom, secret []byte) of Go. It is called
// even if no key log was asked for. Go passes ax, bx, cx, di, si, r8, r9, r10, r11: the Config, the
// label and its length, the random with length and capacity, the secret with length and capacity.
SEC("uprobe")
int go_key_log(struct pt_regs *regs)
{
	__u64 label = regs->cx, random = regs->si, secret = regs->r10;
	if (label >= 32 || random != 32 || secret > SECRET)
		return 0;
	struct key_line_event *event = bpf_ringbuf_reserve(&EVENTS, sizeof(*event), 0);
	if (!event)
		return 0;
	head(&event->event, KEY_LINE, 0);
	event->event.length = sizeof(event->line);
	event->line.length = secret;
	__builtin_memset(event->line.label, 0, sizeof(event->line.label));
	if (bpf_probe_read_user(event->line.label, label & 31, (void *)regs->bx) ||
	    bpf_probe_read_user(event->line.random, 32, (void *)regs->di) ||
	    bpf_probe_read_user(event->line.secret, secret & (SECRET * 2 - 1), (void *)regs->r9)) {
		bpf_ringbuf_discard(event, 0);
		return 0;
	}
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return 0;
}
