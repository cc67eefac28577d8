/* Remembers what a disk would still have after a power loss.
 *
 * Loaded into the server with LD_PRELOAD. At each fsync and fdatasync that succeeds, one line "<size> <path>" is appended
 * to the file named by SYNCED: the size that the file had when the call began. Whatever was written after that is in the
 * page cache only, and a power loss may take it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int (*sync_call)(int);

static void remember(int fd, off_t size)
{
    const char *log = getenv("SYNCED");
    char link[64], path[PATH_MAX], line[PATH_MAX + 32];
    if (log == NULL)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return;
    path[length] = '\0';
    int out = open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0)
        return;
    int written = snprintf(line, sizeof line, "%lld %s\n", (long long)size, path);
    if (write(out, line, (size_t)written) != written)
        abort(); /* evidence that is not whole is worse than none */
    close(out);
}

static int synced(const char *name, int fd)
{
    sync_call real = (sync_call)dlsym(RTLD_NEXT, name);
    struct stat before;
    int known = fstat(fd, &before) == 0;
    int result = real(fd);
    if (result == 0 && known && S_ISREG(before.st_mode))
        remember(fd, before.st_size);
    return result;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }
