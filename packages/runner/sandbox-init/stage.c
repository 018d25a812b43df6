/*
 * stage UID GID [PROCS_FILE]...
 *
 * The outer process of a sandbox. It joins the slot's cgroups, which can take the kernel many milliseconds, creates
 * the namespaces and starts PID 1 (first-process.c), which waits for its commands. All of this happens before the
 * sandbox is needed. Then it drops its privileges and waits for the end of PID 1, whose exit status becomes its own.
 *
 * A gateway that is root needs no user namespace for this. Any other gateway has the necessary privileges only in a
 * user namespace of its own, which is created first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-init.h"

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(path);
  close(fd);
}

static void create_namespaces(void) {
  if (unshare(NAMESPACES | CLONE_NEWCGROUP) == 0) return;
  /* A kernel without cgroups does not support CLONE_NEWCGROUP. */
  if (errno != EINVAL || unshare(NAMESPACES) < 0) fail("namespaces");
}

/*
 * Everyone in the sandbox can read the command line of PID 1. The arguments, followed by the environment, contain
 * paths of the host. They are one block of memory, and a forked process has its own copy of it.
 */
static void clear_command_line(int argc, char **argv) {
  extern char **environ;
  const char *last = argv[argc - 1];
  for (char **variable = environ; *variable != NULL; variable++) last = *variable;
  memset(argv[0], 0, (size_t)(last - argv[0]) + strlen(last));
}

static int wait_for(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) fail("waitpid");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_stage(int argc, char **argv) {
  pid_t gateway = getppid();
  if (argc < 4) refuse("stage", EINVAL);
  die_with_gateway(gateway);
  if (syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0) < 0) fail("descriptors");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) fail("no_new_privs");
  struct user user = {
    (uid_t)strtoul(argv[2], NULL, 10),
    (gid_t)strtoul(argv[3], NULL, 10),
    geteuid() == 0,
  };
  if (!user.is_other && (user.uid != geteuid() || user.gid != getegid())) refuse("another user", EPERM);
  for (int i = 4; i < argc; i++) write_file(argv[i], "0");
  /* If the machine runs out of memory, a plugin is killed before the gateway. */
  write_file("/proc/self/oom_score_adj", "500");
  int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) fail("/proc");
  if (!user.is_other) enter_user_namespace(proc, user.uid, user.gid);
  create_namespaces();
  open_lifeline();
  pid_t first = fork();
  if (first < 0) fail("fork");
  if (first == 0) {
    clear_command_line(argc, argv);
    run_first_process(&user, proc);
  }
  keep_lifeline_only();
  if (user.is_other) become_user(&user);
  drop_capabilities();
  die_with_gateway(gateway);
  return wait_for(first);
}
