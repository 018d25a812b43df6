/* A library that runs wherever it is loaded, and leaves a mark that the host could see. */
#include <fcntl.h>
#include <unistd.h>

#ifndef MARK
#define MARK "/tmp/mark"
#endif

__attribute__((constructor)) static void loaded(void) {
  int fd = open(MARK, O_WRONLY | O_CREAT, 0666);
  if (fd >= 0) close(fd);
  if (write(2, "loaded\n", 7) < 0) _exit(1);
}
