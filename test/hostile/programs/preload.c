/* A library that writes to stderr when it is loaded and creates a file that the host could see. */
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
