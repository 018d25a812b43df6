/*
 * sandbox-init has two parts. `stage` runs outside of the sandbox as root: it joins the slot's cgroups, builds the
 * root file system in its own mount namespace, becomes the slot's user and executes bwrap. `init` is PID 1 of the
 * sandbox: it drops the last privileges, starts the plugin, reaps processes and reports the exit. `probe` is a
 * plugin for the gateway's self-test.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init.h"

void fail(const char *what) {
  fprintf(stderr, "sandbox-init: %s: %s\n", what, strerror(errno));
  exit(125);
}

void read_whole(int fd, void *into, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t n = read(fd, (char *)into + done, length - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(126);
    done += (size_t)n;
  }
}

void write_whole(int fd, const void *from, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t n = write(fd, (const char *)from + done, length - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(126);
    done += (size_t)n;
  }
}

/* Prints what the kernel reports about a process in the sandbox. */
static int run_probe(void) {
  char text[4096];
  int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
  return n > 0 && write(STDOUT_FILENO, text, (size_t)n) == n ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc >= 2 && strcmp(argv[1], "stage") == 0) return run_stage(argc - 2, argv + 2);
  if (argc == 2 && strcmp(argv[1], "init") == 0) return run_init();
  if (argc == 2 && strcmp(argv[1], "probe") == 0) return run_probe();
  fputs("sandbox-init is started by Backplane\n", stderr);
  return 125;
}
