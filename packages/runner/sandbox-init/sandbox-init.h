/* Declarations shared by the parts of sandbox-init. */
#ifndef SANDBOX_INIT_H
#define SANDBOX_INIT_H

/*
 * The gateway's end of a socket pair: orders come in, reports go out. When it closes, everything in the sandbox is
 * killed.
 */
#define CONTROL_FD 3
/* The system-call filter as bytes. */
#define FILTER_FD 4
/*
 * Become the plugin's 0, 1 and 2. Our own stay separate: bwrap keeps them open, and its messages are not the
 * plugin's.
 */
#define PLUGIN_STDIN_FD 5
#define PLUGIN_STDERR_FD 7
/*
 * Node's IPC channel to a child. The egress listeners are sent over it, and it is closed before the plugin starts.
 */
#define CHANNEL_FD 8
#define MAX_LISTENERS 256

#define PATH_BYTES 4096

#include <stddef.h>

int run_stage(int argc, char **argv);
int run_init(void);

/* Steps that build the root of a sandbox (root.c): begin, add, finish without anything of the host around it. */
void begin_root(void);
/* WHOLE includes what is mounted below the source. */
#define BIND_WHOLE 1
#define BIND_WRITABLE 2
#define BIND_DEVICE 4
void add_bind(const char *source, const char *path, int how);
void add_link(const char *target, const char *path);
/* An empty read-only folder. */
void add_hidden(const char *path);
void add_scratch(const char *path, const char *options);
/* Afterwards this is the program's only path. */
#define OUTER_PROGRAM "/bwrap"
void finish_root(const char *program);

/* `BYTES FILES PATH` of a persistent folder. Stores the pointer, not a copy. */
void add_kept(char *text);
/* Whether one of them exceeds its limits. Sets the time until the next check, -1 for never. */
int kept_is_full(int *wait_ms);

/* Prints the reason to stderr and exits with 125, which the gateway reads as "the sandbox could not be created". */
__attribute__((noreturn)) void fail(const char *what);

/* `ADDRESS PORT`. Stores the pointer, not a copy. */
void add_listener(const char *text);
/* Opens the listeners, sends them to the gateway and closes the channel. */
void send_listeners(void);

/* Transfers all bytes. Exits if the gateway is gone. */
void read_whole(int fd, void *into, size_t length);
void write_whole(int fd, const void *from, size_t length);

/*
 * `NAME/PATH MAX`: sends the file as "data N" lines, each followed by N bytes. Returns -1 and sets errno if it is
 * refused.
 */
int send_artifact(int scratch, char *request);

/* `NAME/FILE BYTES`: creates a file of this size, of which `length` bytes have arrived. Always reads all of them. */
int receive_artifact(int scratch, char *request, const char *rest, size_t length, size_t *taken);

#endif
