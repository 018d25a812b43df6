/*
 * sandbox-init creates a sandbox and is PID 1 in it. `stage` (stage.c, first-process.c) does both. `init` (init.c) is
 * only PID 1, in a sandbox that bwrap created. `probe` is a plugin for the gateway's self-test.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-init.h"

void fail(const char *what) {
  fprintf(stderr, "sandbox-init: %s: %s\n", what, strerror(errno));
  exit(125);
}

void refuse(const char *what, int code) {
  errno = code;
  fail(what);
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

long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

char *read_records(size_t max, size_t *length) {
  uint32_t announced;
  read_whole(CONTROL_FD, &announced, sizeof announced);
  if (announced == 0 || announced > max) _exit(126);
  char *text = malloc(announced);
  if (text == NULL) _exit(126);
  read_whole(CONTROL_FD, text, announced);
  if (text[announced - 1] != '\0') _exit(126);
  *length = announced;
  return text;
}

/* Prints what the kernel reports about this process. */
static int run_probe(void) {
  char text[4096];
  int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
  return n > 0 && write(STDOUT_FILENO, text, (size_t)n) == n ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc >= 2 && strcmp(argv[1], "stage") == 0) return run_stage(argc, argv);
  if (argc == 2 && strcmp(argv[1], "init") == 0) return run_init();
  if (argc == 2 && strcmp(argv[1], "probe") == 0) return run_probe();
  fputs("sandbox-init is started by Backplane\n", stderr);
  return 125;
}
