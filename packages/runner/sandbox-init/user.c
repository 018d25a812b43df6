/*
 * The plugin's user and privileges. A gateway that is root gives every slot a user of its own, and the process
 * becomes that user before it enters any user namespace: a process that is root outside could write to files of the
 * kernel such as /proc/sys/kernel/core_pattern, whatever its capabilities are.
 *
 * The plugin's user namespace is created last, when all other namespaces exist. Those belong to the parent user
 * namespace, so even a plugin that gained every capability in its own could not configure its network or its mounts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-init.h"

/* Sets the permitted and effective capabilities; the inheritable ones are always empty. */
static void set_capabilities(unsigned int first_word) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  memset(data, 0, sizeof data);
  data[0].permitted = data[0].effective = first_word;
  if (syscall(SYS_capset, &header, data) < 0) fail("capset");
}

/*
 * An unnoticed failure would leave a process with root's privileges, so each step is checked and the result verified.
 * The raw system calls suffice, because there is only one thread.
 */
void become_user(const struct user *user) {
  if (user->uid == 0 || user->gid == 0) refuse("the slot's user", EINVAL);
  if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0) fail("capabilities");
  if (syscall(SYS_setgroups, 0, NULL) < 0) fail("setgroups");
  if (syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0) fail("setresgid");
  if (syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0) fail("setresuid");
  /* Some systems let only privileged processes create user namespaces. CAP_SETPCAP is needed to drop the rest. */
  set_capabilities(1u << CAP_SYS_ADMIN | 1u << CAP_SETPCAP);
  if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0) fail("capabilities");
  if (syscall(SYS_setresuid, 0, 0, 0) == 0 || getuid() != user->uid || geteuid() != user->uid) {
    refuse("root could be regained", EPERM);
  }
}

static void write_map(int proc, const char *path, const char *text) {
  int fd = openat(proc, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) fail(path);
  close(fd);
}

void enter_user_namespace(int proc, uid_t uid, gid_t gid) {
  char users[64], groups[64];
  snprintf(users, sizeof users, "%d %u 1", INSIDE_ID, uid);
  snprintf(groups, sizeof groups, "%d %u 1", INSIDE_ID, gid);
  if (unshare(CLONE_NEWUSER) < 0) fail("user namespace");
  /* A process that is not dumpable does not own its files in /proc. Nobody else is in its PID namespace yet. */
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) fail("dumpable");
  write_map(proc, "self/setgroups", "deny");
  write_map(proc, "self/uid_map", users);
  write_map(proc, "self/gid_map", groups);
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) fail("dumpable");
}

void drop_capabilities(void) {
  for (int cap = 0;; cap++) {
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0) continue;
    /* Under bwrap the set is already empty and cannot be changed. A read beyond the last capability fails. */
    int is_left = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
    if (is_left < 0) break;
    if (is_left > 0) fail("bounding set");
  }
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) fail("ambient capabilities");
  set_capabilities(0);
}
