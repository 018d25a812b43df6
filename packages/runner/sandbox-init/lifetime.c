/*
 * A sandbox does not outlive the gateway: the outer process is killed when the gateway dies, and PID 1, with all other
 * processes of its namespace, when the outer process dies. Both set a parent-death signal. The kernel clears it when a
 * process changes its user or gains capabilities, so it is set again after each such change. A check afterwards detects
 * a parent that died earlier. PID 1 does not see the pid of its parent, so a pipe shows it whether the parent exists.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-init.h"

static int lifeline[2] = {-1, -1};

void die_with_gateway(pid_t gateway) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) fail("the parent's death");
  if (getppid() != gateway) _exit(126);
}

void open_lifeline(void) {
  if (pipe2(lifeline, O_CLOEXEC) < 0) fail("pipe");
}

void keep_lifeline_only(void) {
  if (dup2(lifeline[1], CONTROL_FD) < 0 || syscall(SYS_close_range, CONTROL_FD + 1, ~0U, 0) < 0) {
    fail("descriptors");
  }
}

void die_with_outer_process(void) {
  struct pollfd end = {lifeline[0], 0, 0};
  if (lifeline[1] >= 0) close(lifeline[1]);
  lifeline[1] = -1;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) fail("the parent's death");
  while (poll(&end, 1, 0) < 0) {
    if (errno != EINTR) fail("poll");
  }
  if (end.revents != 0) _exit(126);
}
