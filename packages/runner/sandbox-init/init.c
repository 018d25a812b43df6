/*
 * PID 1 of a sandbox. The plan arrives on the control socket as a length and NUL-terminated records:
 *   l<resource>=<value>   s<scratch folder>   k<bytes files folder>   n<address port>   e<NAME=value>   a<argument>
 *   w<working folder>
 * Then PID 1 writes lines: "started" or "failed ERRNO"; answers to `make NAME`, `remove NAME`, `get NAME/PATH MAX`,
 * `put NAME/FILE BYTES` and `trace` ("ok", "no ERRNO"; see artifact.c); between answers "refused tcp|udp ADDRESS PORT
 * COUNT [QUESTION]" and "unlisted COUNT", or once "untraced ERRNO" (see trace.c); finally "ended CODE SIGNAL CPU_MS
 * MAXRSS_KB FULL". When the socket closes, all processes in the sandbox are killed. If there is a scratch folder, PID 1
 * keeps running after the plugin's exit until the socket closes, so that the gateway can read the files in it.
 * PID 1 cannot be read or traced from inside and has no privilege that the plugin does not have.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-init.h"

#define MAX_PLAN (4u << 20)
#define MAX_WORDS 8192
#define MAX_DEPTH 64

static char *arguments[MAX_WORDS], *environment[MAX_WORDS];
static struct { int resource; rlim_t value; } limits[16];
static int argument_count, variable_count, limit_count;
static const char *scratch, *working_folder = "/";
/* The exit code of PID 1: that of the plugin once it has exited. */
static int exit_code = 126;

static void send_line(const char *line) { write_whole(CONTROL_FD, line, strlen(line)); }

static void add_limit(const char *text) {
  char *value;
  long resource = strtol(text, &value, 10);
  if (*value != '=' || limit_count == (int)(sizeof limits / sizeof *limits)) _exit(126);
  limits[limit_count].resource = (int)resource;
  limits[limit_count++].value = (rlim_t)strtoull(value + 1, NULL, 10);
}

void read_plan(void) {
  size_t length;
  char *plan = read_records(MAX_PLAN, &length);
  for (char *at = plan; at < plan + length; at += strlen(at) + 1) {
    if (argument_count == MAX_WORDS - 1 || variable_count == MAX_WORDS - 1) _exit(126);
    if (*at == 'a') arguments[argument_count++] = at + 1;
    else if (*at == 'e') environment[variable_count++] = at + 1;
    else if (*at == 's') scratch = at + 1;
    else if (*at == 'w') working_folder = at + 1;
    else if (*at == 'l') add_limit(at + 1);
    else if (*at == 'k') add_kept(at + 1);
    else if (*at == 'n') add_listener(at + 1);
    else _exit(126);
  }
  if (argument_count == 0) _exit(126);
}

static void install_filter(void) {
  static struct sock_filter program[1024];
  size_t done = 0;
  for (;;) {
    ssize_t n = read(FILTER_FD, (char *)program + done, sizeof program - done);
    if (n < 0) fail("filter");
    if (n == 0) break;
    done += (size_t)n;
  }
  close(FILTER_FD);
  if (done == 0 || done % sizeof *program != 0) {
    errno = EINVAL;
    fail("filter");
  }
  struct sock_fprog filter = {(unsigned short)(done / sizeof *program), program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) fail("no_new_privs");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) fail("seccomp");
}

__attribute__((noreturn)) static void become_plugin(int failure) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid();
  /* The gateway's umask is 077. Calls of one binding can run as different users that share mounted folders. */
  umask(022);
  for (int i = 0; i < limit_count; i++) {
    /* The hard limit of CPU time is a second higher, so that the soft limit first sends its own signal, SIGXCPU. */
    struct rlimit limit = {limits[i].value, limits[i].value + (limits[i].resource == RLIMIT_CPU)};
    if (setrlimit(limits[i].resource, &limit) < 0) goto failed;
  }
  for (int fd = 0; fd < 3; fd++) {
    if (dup2(PLUGIN_STDIN_FD + fd, fd) < 0) goto failed;
  }
  if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0) goto failed;
  if (chdir(working_folder) < 0) goto failed;
  execve(arguments[0], arguments, environment);
failed:
  if (write(failure, &errno, sizeof errno) < 0) _exit(126);
  _exit(127);
}

/* PID 1 has only the plugin's rights, so a tree that changes meanwhile cannot make it remove anything else. */
static int remove_tree(int parent, const char *name, int depth) {
  if (unlinkat(parent, name, 0) == 0) return 0;
  if (errno != EISDIR && errno != EPERM) return -1;
  fchmodat(parent, name, 0700, 0);
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || depth == MAX_DEPTH) {
    if (fd >= 0) close(fd);
    errno = depth == MAX_DEPTH ? ELOOP : errno;
    return -1;
  }
  DIR *folder = fdopendir(fd);
  if (folder == NULL) return close(fd), -1;
  int failed = 0;
  for (struct dirent *entry; failed == 0 && (entry = readdir(folder)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    failed = remove_tree(fd, entry->d_name, depth + 1);
  }
  closedir(folder);
  return failed == 0 ? unlinkat(parent, name, AT_REMOVEDIR) : -1;
}

static void answer(int result) {
  char line[32];
  snprintf(line, sizeof line, "no %d\n", errno);
  send_line(result == 0 ? "ok\n" : line);
}

/* `rest` holds the bytes that arrived after the line; some may belong to a `put`. Returns how many were used. */
static size_t execute_file_command(char *line, const char *rest, size_t length) {
  int folder = scratch == NULL ? -1 : open(scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  size_t taken = 0;
  int result = line[0] == 'g' ? send_artifact(folder, line + 4) : receive_artifact(folder, line + 4, rest, length, &taken);
  answer(result);
  if (folder >= 0) close(folder);
  return taken;
}

static void execute_command(char *line) {
  if (strcmp(line, "trace") == 0) {
    send_refusals();
    answer(0);
    return;
  }
  char *name = strchr(line, ' ');
  if (name == NULL || scratch == NULL || strchr(name, '/') != NULL || name[1] == '.' || name[1] == '\0') {
    errno = EINVAL;
    answer(-1);
    return;
  }
  *name++ = '\0';
  int folder = open(scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  errno = folder < 0 ? errno : EINVAL;
  if (folder >= 0 && strcmp(line, "make") == 0) answer(mkdirat(folder, name, 0700));
  else if (folder >= 0 && strcmp(line, "remove") == 0) answer(remove_tree(folder, name, 0));
  else answer(-1);
  if (folder >= 0) close(folder);
}

/* Returns false when the gateway is gone. */
static int read_commands(void) {
  static char buffer[512];
  static size_t used;
  ssize_t n = read(CONTROL_FD, buffer + used, sizeof buffer - 1 - used);
  if (n <= 0) return n < 0 && errno == EINTR;
  used += (size_t)n;
  for (char *end; (end = memchr(buffer, '\n', used)) != NULL;) {
    *end = '\0';
    used -= (size_t)(end + 1 - buffer);
    size_t taken = 0;
    if (strncmp(buffer, "get ", 4) == 0 || strncmp(buffer, "put ", 4) == 0) {
      taken = execute_file_command(buffer, end + 1, used);
    } else execute_command(buffer);
    used -= taken;
    memmove(buffer, end + 1 + taken, used);
  }
  return used < sizeof buffer - 1;
}

static int scratch_is_full(void) {
  struct statvfs space;
  if (scratch == NULL || statvfs(scratch, &space) < 0) return 0;
  return space.f_bavail == 0 || (space.f_files > 0 && space.f_ffree == 0);
}

/* `full` is set if the plugin was killed because a persistent folder exceeded its limits. */
static void report(int status, int full) {
  struct rusage used;
  char line[128];
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  getrusage(RUSAGE_CHILDREN, &used);
  long cpu_ms = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000L +
                (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000L;
  /*
   * Kills all remaining processes of the namespace, so that no file changes while it is read. For PID 1, -1 means the
   * processes of the namespace; for any other process it would mean every process on the machine.
   */
  if (getpid() == 1) kill(-1, SIGKILL);
  send_refusals();
  snprintf(line, sizeof line, "ended %d %d %ld %ld %d\n", code, signal, cpu_ms, used.ru_maxrss,
           full ? 2 : scratch_is_full());
  send_line(line);
  exit_code = signal != 0 ? 128 + signal : code;
  if (scratch == NULL) _exit(exit_code);
}

static void supervise(pid_t plugin, int signals) {
  struct pollfd watched[2 + MAX_TRACED] = {{CONTROL_FD, POLLIN, 0}, {signals, POLLIN, 0}};
  struct signalfd_siginfo ignored;
  int full = 0;
  for (;;) {
    int wait = -1;
    if (plugin > 0 && !full && (full = kept_is_full(&wait)) != 0) {
      kill(plugin, SIGKILL);
      wait = -1;
    }
    int traced = watch_refusals(watched + 2, &wait);
    if (poll(watched, (nfds_t)(2 + traced), wait) < 0 && errno != EINTR) _exit(126);
    send_watched_refusals(watched + 2, traced);
    if (watched[1].revents != 0) {
      if (read(signals, &ignored, sizeof ignored) < 0 && errno != EAGAIN) _exit(126);
      int status;
      for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != plugin) continue;
        report(status, full);
        plugin = 0;
      }
    }
    if (watched[0].revents != 0 && !read_commands()) _exit(exit_code);
  }
}

int run_plugin(void) {
  int failure[2], error = 0, wait;
  sigset_t child;
  char line[32];

  send_listeners();
  if (trace_failure() != 0) {
    snprintf(line, sizeof line, "untraced %d\n", trace_failure());
    send_line(line);
  }
  install_filter();
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  if (kept_is_full(&wait)) {
    snprintf(line, sizeof line, "failed %d\n", EDQUOT);
    send_line(line);
    return 127;
  }
  int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0 || pipe2(failure, O_CLOEXEC) < 0) fail("signalfd");
  /* The child shares the memory of PID 1 until it executes the plugin, which saves copying it. */
  pid_t plugin = vfork();
  if (plugin < 0) fail("fork");
  if (plugin == 0) become_plugin(failure[1]);
  close(failure[1]);
  /* PID 1 closes its copies of the plugin's pipes, so that they end with the plugin. */
  syscall(SYS_close_range, PLUGIN_STDIN_FD, PLUGIN_STDERR_FD, 0);
  if (read(failure[0], &error, sizeof error) == (ssize_t)sizeof error) {
    snprintf(line, sizeof line, "failed %d\n", error);
    send_line(line);
    return 127;
  }
  close(failure[0]);
  send_line("started\n");
  supervise(plugin, signals);
  return 126;
}

int run_init(void) {
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) fail("dumpable");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0);
  read_plan();
  open_listeners();
  open_trace();
  drop_capabilities();
  return run_plugin();
}
