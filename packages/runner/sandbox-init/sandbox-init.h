/* What the two halves of sandbox-init share. */
#ifndef SANDBOX_INIT_H
#define SANDBOX_INIT_H

/* The gateway's end of a socket pair: the order goes in, the report comes out, its end means "die". */
#define CONTROL_FD 3
/* The system-call filter as bytes. */
#define FILTER_FD 4
/* The plugin's own 0, 1 and 2. Ours stay ours: bwrap keeps them open, and what it says there is no plugin's word. */
#define PLUGIN_STDIN_FD 5
#define PLUGIN_STDERR_FD 7
/* Node's channel to a child: the listeners of the way out leave by it, and it is closed before the plugin starts. */
#define CHANNEL_FD 8
#define MAX_LISTENERS 256

#define PATH_ROOM 4096

#include <stddef.h>

int run_stage(int argc, char **argv);
int run_init(void);

/* The steps of building a sandbox's root (root.c): begun, filled, left behind with nothing of the host around it. */
void begin_root(void);
/* WHOLE: with what is mounted below it. */
#define BIND_WHOLE 1
#define BIND_WRITABLE 2
#define BIND_DEVICE 4
void bind_in(const char *source, const char *path, int how);
void link_in(const char *target, const char *path);
/* Empty and read-only. */
void hide_in(const char *path);
void scratch_in(const char *path, const char *options);
/* Afterwards the program has another path, and that is the only one. */
#define OUTER_PROGRAM "/bwrap"
void finish_root(const char *program);

/* `BYTES FILES PATH` of a folder that the plugin keeps; kept, not copied. */
void add_kept(char *text);
/* Whether there is more in one of them than there may be; when to ask again, -1 for never. */
int kept_is_full(int *wait_ms);

/* Says why on stderr and ends with 125, which the gateway reads as "the sandbox could not be made". */
__attribute__((noreturn)) void give_up(const char *what);

/* `ADDRESS PORT`; kept, not copied. */
void add_listener(const char *text);
/* Opens them, gives them to the gateway, and closes the channel. */
void hand_out_listeners(void);

/* All of it, or the end: the gateway is gone. */
void read_whole(int fd, void *into, size_t length);
void write_whole(int fd, const void *from, size_t length);

/* `NAME/PATH MAX`: the file's bytes as "data N" lines with N bytes each, or -1 and errno for what is refused. */
int give_artifact(int scratch, char *request);

/* `NAME/FILE BYTES`: a new file of that many bytes, of which `length` have come; all are read whatever happens. */
int take_artifact(int scratch, char *request, const char *rest, size_t length, size_t *taken);

#endif
