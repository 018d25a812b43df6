/*
 * stage UID GID FOLDER [PROCS_FILE]...
 *
 * Enters the slot's cgroups, which can take the kernel many milliseconds, and waits for its words on the control
 * socket, so that it can be started before there is anything to do:
 *   [bind SOURCE NAME | scratch NAME OPTIONS]... -- PROGRAM ARGS...
 *
 * Everything happens in a private mount namespace, so that nothing of it outlives the process, however it ends.
 * Sources are opened inside it before FOLDER is covered, and bound by descriptor: a source may lie in a closed
 * home, and even below FOLDER itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-init.h"

#define MAX_BINDS 64
#define MAX_WORDS 1024
#define MAX_BYTES (1u << 20)

struct bind {
  const char *source, *name;
  int fd;
};

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) give_up(path);
  close(fd);
}

static void path_in(char *path, const char *folder, const char *name) {
  if (snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    give_up(name);
  }
}

static void bind_at(const char *folder, const struct bind *bind) {
  char target[PATH_MAX], source[64];
  struct stat info;
  path_in(target, folder, bind->name);
  snprintf(source, sizeof source, "/proc/self/fd/%d", bind->fd);
  if (fstat(bind->fd, &info) < 0) give_up(bind->name);
  if (S_ISDIR(info.st_mode)) {
    if (mkdir(target, 0755) < 0) give_up(target);
  } else {
    int fd = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) give_up(target);
    close(fd);
  }
  if (mount(source, target, NULL, MS_BIND, NULL) < 0) give_up(target);
  close(bind->fd);
}

/* NUL-terminated words after their length in bytes; without a gateway there is nothing to do. */
static int read_words(char **words) {
  uint32_t length;
  int count = 0;
  read_whole(CONTROL_FD, &length, sizeof length);
  if (length == 0 || length > MAX_BYTES) _exit(126);
  char *text = malloc(length);
  if (text == NULL) _exit(126);
  read_whole(CONTROL_FD, text, length);
  if (text[length - 1] != '\0') _exit(126);
  for (char *at = text; at < text + length && count < MAX_WORDS; at += strlen(at) + 1) words[count++] = at;
  words[count] = NULL;
  return count;
}

/* A later error here would leave a process with root's rights: every step is checked, then checked again. */
static void become(uid_t uid, gid_t gid) {
  if (uid == 0 || gid == 0) {
    errno = EINVAL;
    give_up("the slot's user");
  }
  if (setgroups(0, NULL) < 0) give_up("setgroups");
  if (setresgid(gid, gid, gid) < 0) give_up("setresgid");
  if (setresuid(uid, uid, uid) < 0) give_up("setresuid");
  if (setresuid(0, 0, 0) == 0) give_up("root could be regained");
}

int run_stage(int argc, char **argv) {
  struct bind binds[MAX_BINDS];
  char *words[MAX_WORDS + 1];
  int bound = 0, at = 0;
  const char *scratch = NULL, *scratch_options = NULL;
  pid_t parent = getppid();

  if (argc < 3) {
    errno = EINVAL;
    give_up("stage");
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  uid_t uid = (uid_t)strtoul(argv[0], NULL, 10);
  gid_t gid = (gid_t)strtoul(argv[1], NULL, 10);
  const char *folder = argv[2];
  for (int i = 3; i < argc; i++) write_file(argv[i], "0");

  argc = read_words(words);
  argv = words;
  for (; at < argc && strcmp(argv[at], "--") != 0;) {
    if (strcmp(argv[at], "bind") == 0 && at + 2 < argc && bound < MAX_BINDS) {
      binds[bound++] = (struct bind){argv[at + 1], argv[at + 2], -1};
      at += 3;
    } else if (strcmp(argv[at], "scratch") == 0 && at + 2 < argc) {
      scratch = argv[at + 1];
      scratch_options = argv[at + 2];
      at += 3;
    } else {
      errno = EINVAL;
      give_up(argv[at]);
    }
  }
  if (at + 1 >= argc) {
    errno = EINVAL;
    give_up("no program");
  }

  if (unshare(CLONE_NEWNS) < 0) give_up("unshare");
  if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) give_up("mount /");
  for (int i = 0; i < bound; i++) {
    binds[i].fd = open(binds[i].source, O_PATH | O_CLOEXEC);
    if (binds[i].fd < 0) give_up(binds[i].source);
  }
  if (mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m,nr_inodes=256") < 0) give_up(folder);
  for (int i = 0; i < bound; i++) bind_at(folder, &binds[i]);
  if (scratch != NULL) {
    char target[PATH_MAX];
    path_in(target, folder, scratch);
    if (mkdir(target, 0700) < 0) give_up(target);
    if (mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, scratch_options) < 0) give_up(target);
  }

  /* Should the whole machine run out of memory, a plugin goes before the gateway. */
  write_file("/proc/self/oom_score_adj", "500");
  syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0);
  become(uid, gid);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) give_up("no_new_privs");
  /* A change of user clears it, so it is asked for now; who died before is seen by getppid. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) give_up("the gateway is gone");
  char *environment[] = {NULL};
  execve(argv[at + 1], argv + at + 1, environment);
  give_up(argv[at + 1]);
}
