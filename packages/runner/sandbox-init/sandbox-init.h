/* Declarations shared by the parts of sandbox-init. */
#ifndef SANDBOX_INIT_H
#define SANDBOX_INIT_H

/*
 * A socket to the gateway: requests come in, reports go out. When the gateway closes its end, everything in the sandbox
 * is killed.
 */
#define CONTROL_FD 3
/* The system-call filter as bytes. */
#define FILTER_FD 4
/* These become descriptors 0, 1 and 2 of the plugin. sandbox-init keeps its own, so that its messages are separate. */
#define PLUGIN_STDIN_FD 5
#define PLUGIN_STDERR_FD 7
/*
 * Node's IPC channel to a child. The egress listeners are sent over it, and it is closed before the plugin starts.
 */
#define CHANNEL_FD 8
#define MAX_LISTENERS 256

#define PATH_BYTES 4096

/* The id of the plugin's user and group inside the sandbox. */
#define INSIDE_ID 1000

#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

/* The user of a slot, as the host sees it. */
struct user {
  uid_t uid;
  gid_t gid;
  /* Set if the gateway is root. The slot then has a user of its own. */
  int is_other;
};

int run_stage(int argc, char **argv);
__attribute__((noreturn)) void run_first_process(const struct user *user, int proc);

/* Both run as PID 1: `run_init` does everything under bwrap; `run_plugin` is its last part, also used without bwrap. */
int run_init(void);
int run_plugin(void);
/* Reads the plan of the plugin. */
void read_plan(void);

/* A sandbox does not outlive the gateway (lifetime.c). */
void die_with_gateway(pid_t gateway);
void open_lifeline(void);
/* The outer process keeps its end of the lifeline as descriptor 3 and closes all higher ones. */
void keep_lifeline_only(void);
void die_with_outer_process(void);

/*
 * Becomes the slot's user permanently. Keeps only the capabilities to create a user namespace and to drop
 * capabilities.
 */
void become_user(const struct user *user);
/* Creates a user namespace in which `uid` and `gid` are the only ids. `proc` is the host's /proc. */
void enter_user_namespace(int proc, uid_t uid, gid_t gid);
void drop_capabilities(void);

/* Steps that build the root of a sandbox (root.c): begin, add, then finish by detaching the host's files. */
void begin_root(void);
/* BIND_WHOLE includes everything that is mounted below the source. */
#define BIND_WHOLE 1
#define BIND_WRITABLE 2
#define BIND_DEVICE 4
void add_bind(const char *source, const char *path, int how);
void add_link(const char *target, const char *path);
/* Adds an empty read-only folder. */
void add_hidden(const char *path);
void add_scratch(const char *path, const char *options);
void finish_root(void);

/* `BYTES FILES PATH` of a persistent folder. Stores the pointer, not a copy. */
void add_kept(char *text);
/* Whether a persistent folder exceeds its limits. Sets the time until the next check; -1 means never. */
int kept_is_full(int *wait_ms);

/* Prints the reason to stderr and exits with 125, which the gateway reads as "the sandbox could not be created". */
__attribute__((noreturn)) void fail(const char *what);
__attribute__((noreturn)) void refuse(const char *what, int code);

/*
 * Reports of refused connections (trace.c). `open_trace` needs privileges over the network namespace. Without them
 * nothing is reported, and `trace_failure` returns the errno.
 */
#define MAX_TRACED 4
void open_trace(void);
int trace_failure(void);
/* Reports the connections that were refused since the last report. */
void send_refusals(void);
/* For the loop of PID 1: what to poll, and for how long at most, so that a flood of refusals costs little. */
int watch_refusals(struct pollfd *watched, int *wait_ms);
void send_watched_refusals(const struct pollfd *watched, int count);

/* Fails if the network namespace is not a new one. */
void raise_loopback(void);
/* `ADDRESS PORT`. Stores the pointer, not a copy. */
void add_listener(const char *text);
void open_listeners(void);
/* Sends the listeners to the gateway and closes the channel. */
void send_listeners(void);

/* Transfers all bytes. Exits if the gateway is gone. */
void read_whole(int fd, void *into, size_t length);
void write_whole(int fd, const void *from, size_t length);
long long now_ms(void);
/* Reads a length and NUL-terminated records. Exits if the gateway is gone or the length is wrong. */
char *read_records(size_t max, size_t *length);

/*
 * `NAME/PATH MAX`: sends the file as "data N" lines, each followed by N bytes. Returns -1 and sets errno if it is
 * refused.
 */
int send_artifact(int scratch, char *request);

/*
 * `NAME/FILE BYTES`: creates a file of this size. `rest` holds the first `length` bytes that arrived after the request;
 * missing bytes are read from the socket, even if the file cannot be written. Sets `taken` to the bytes used of `rest`.
 */
int receive_artifact(int scratch, char *request, const char *rest, size_t length, size_t *taken);

#endif
