/*
 * stage UID GID [PROCS_FILE]...
 * 
 * Joins the slot's cgroups, which can take the kernel many milliseconds, and waits for its commands on the control
 * socket, so that it can be started ahead of time. Commands are executed in their order (root.c):
 *   [show SOURCE PATH | system SOURCE PATH | share SOURCE PATH | link TARGET PATH | hide PATH | scratch PATH OPTIONS]...
 *   -- PROGRAM ARGS...
 * Then it detaches the host's files, becomes the slot's user and executes the program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-init.h"

#define MAX_WORDS 1024
#define MAX_BYTES (1u << 20)

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(path);
  close(fd);
}

/* Reads NUL-terminated words after their length in bytes. Exits if the gateway is gone. */
static int read_arguments(char **words) {
  uint32_t length;
  int count = 0;
  read_whole(CONTROL_FD, &length, sizeof length);
  if (length == 0 || length > MAX_BYTES) _exit(126);
  char *text = malloc(length);
  if (text == NULL) _exit(126);
  read_whole(CONTROL_FD, text, length);
  if (text[length - 1] != '\0') _exit(126);
  for (char *at = text; at < text + length; at += strlen(at) + 1) {
    if (count == MAX_WORDS) _exit(126);
    words[count++] = at;
  }
  words[count] = NULL;
  return count;
}

/* An unnoticed failure would leave a process with root's rights, so each step is checked and the result verified. */
static void become(uid_t uid, gid_t gid) {
  if (uid == 0 || gid == 0) {
    errno = EINVAL;
    fail("the slot's user");
  }
  if (setgroups(0, NULL) < 0) fail("setgroups");
  if (setresgid(gid, gid, gid) < 0) fail("setresgid");
  if (setresuid(uid, uid, uid) < 0) fail("setresuid");
  if (setresuid(0, 0, 0) == 0) fail("root could be regained");
}

/* Executes one command. Returns its number of words. */
static int execute_command(char **words, int count) {
  const char *word = words[0];
  if (strcmp(word, "hide") == 0 && count > 1) return add_hidden(words[1]), 2;
  if (count < 3) {
    errno = EINVAL;
    fail(word);
  }
  if (strcmp(word, "system") == 0) add_bind(words[1], words[2], BIND_WHOLE);
  else if (strcmp(word, "show") == 0) add_bind(words[1], words[2], 0);
  else if (strcmp(word, "share") == 0) add_bind(words[1], words[2], BIND_WRITABLE);
  else if (strcmp(word, "link") == 0) add_link(words[1], words[2]);
  else if (strcmp(word, "scratch") == 0) add_scratch(words[1], words[2]);
  else {
    errno = EINVAL;
    fail(word);
  }
  return 3;
}

int run_stage(int argc, char **argv) {
  char *words[MAX_WORDS + 1];
  pid_t parent = getppid();

  if (argc < 2) {
    errno = EINVAL;
    fail("stage");
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  uid_t uid = (uid_t)strtoul(argv[0], NULL, 10);
  gid_t gid = (gid_t)strtoul(argv[1], NULL, 10);
  for (int i = 2; i < argc; i++) write_file(argv[i], "0");

  int count = read_arguments(words), at = 0;
  /* If the machine runs out of memory, a plugin is killed before the gateway. */
  write_file("/proc/self/oom_score_adj", "500");
  begin_root();
  while (at < count && strcmp(words[at], "--") != 0) at += execute_command(words + at, count - at);
  if (at + 1 >= count) {
    errno = EINVAL;
    fail("no program");
  }
  finish_root(words[at + 1]);

  syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0);
  become(uid, gid);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) fail("no_new_privs");
  /* A change of user clears this setting, so it is set now. getppid shows whether the parent has exited before. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) fail("the gateway is gone");
  char *environment[] = {NULL};
  execve(OUTER_PROGRAM, words + at + 1, environment);
  fail(words[at + 1]);
}
