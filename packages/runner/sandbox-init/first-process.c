/*
 * The steps of PID 1 before the plugin starts. It builds the root from commands on the control socket (root.c):
 *   [show SOURCE PATH | system SOURCE PATH | share SOURCE PATH | link TARGET PATH | hide PATH | scratch PATH OPTIONS]...
 * Then it detaches the host's files, reads the plan, opens the listeners and drops all privileges. Code of the plugin
 * runs only after that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sandbox-init.h"

#define MAX_WORDS 1024
#define MAX_BYTES (1u << 20)
#define HOST_NAME "sandbox"

static int read_words(char **words) {
  size_t length;
  int count = 0;
  char *text = read_records(MAX_BYTES, &length);
  for (char *at = text; at < text + length; at += strlen(at) + 1) {
    if (count == MAX_WORDS) _exit(126);
    words[count++] = at;
  }
  return count;
}

/*
 * Executes one command and returns its number of words. `how` is added to every bind: in a user namespace, the kernel
 * refuses to bind a folder without the mounts below it.
 */
static int execute_command(char **words, int count, int how) {
  const char *word = words[0];
  if (strcmp(word, "hide") == 0 && count > 1) return add_hidden(words[1]), 2;
  if (count < 3) refuse(word, EINVAL);
  if (strcmp(word, "system") == 0) add_bind(words[1], words[2], BIND_WHOLE);
  else if (strcmp(word, "show") == 0) add_bind(words[1], words[2], how);
  else if (strcmp(word, "share") == 0) add_bind(words[1], words[2], how | BIND_WRITABLE);
  else if (strcmp(word, "link") == 0) add_link(words[1], words[2]);
  else if (strcmp(word, "scratch") == 0) add_scratch(words[1], words[2]);
  else refuse(word, EINVAL);
  return 3;
}

static void set_host_name(void) {
  if (sethostname(HOST_NAME, strlen(HOST_NAME)) < 0 || setdomainname("", 0) < 0) fail("host name");
}

void run_first_process(const struct user *user, int proc) {
  static char *words[MAX_WORDS];
  uid_t uid = user->is_other ? user->uid : INSIDE_ID;
  gid_t gid = user->is_other ? user->gid : INSIDE_ID;

  /* Nobody may read or trace PID 1, and it has no terminal. */
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) fail("dumpable");
  setsid();
  die_with_outer_process();
  set_host_name();
  raise_loopback();
  open_trace();
  begin_root();
  int count = read_words(words), at = 0;
  while (at < count) at += execute_command(words + at, count - at, user->is_other ? 0 : BIND_WHOLE);
  finish_root();
  read_plan();
  open_listeners();
  if (user->is_other) become_user(user);
  enter_user_namespace(proc, uid, gid);
  close(proc);
  drop_capabilities();
  die_with_outer_process();
  exit(run_plugin());
}
