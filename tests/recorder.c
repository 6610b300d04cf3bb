/* Loaded by LD_PRELOAD: writes down, in order, what a process does to the files below RECORDER_FOLDER, and lets the n-th
   write, sync or truncation fail when it is asked to.

   RECORDER_LOG gets a record for each call: kind (1 byte), length of the name (4), offset (8), length of the data (4), all
   little-endian, then the name within the folder and the data. Kinds: w write, t ftruncate, s fsync or fdatasync,
   c file created, u unlink. A renaming ends the process: SQLite does not do it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))real(#name))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -2;
static char fail_kind;
static long fail_at, fail_times, calls, failures;
static int fail_error;

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

/* Returns the name within the folder; NULL if the path is not in it. The folder itself is "". */
static const char *inside(const char *path) {
    const char *folder = getenv("RECORDER_FOLDER");
    size_t length = folder ? strlen(folder) : 0;
    if (!length || strncmp(path, folder, length)) return NULL;
    if (!path[length]) return path + length;
    return path[length] == '/' ? path + length + 1 : NULL;
}

static const char *name_of(int file, char *path) {
    char link[64] = "/proc/self/fd/", *end = link + strlen(link), digits[16];
    int n = 0;
    if (file < 0) return NULL;
    do digits[n++] = '0' + file % 10; while (file /= 10);
    while (n) *end++ = digits[--n];
    *end = 0;
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return NULL;
    path[size] = 0;
    return inside(path);
}

static void put(const void *data, size_t size) {
    if (REAL(write)(log_file, data, size) != (ssize_t)size) abort();
}

static void record(char kind, const char *name, int64_t offset, const void *data, uint32_t size) {
    const char *path = getenv("RECORDER_LOG");
    uint32_t length = strlen(name);
    if (!path) return;
    if (log_file == -2) log_file = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    put(&kind, 1);
    put(&length, 4);
    put(&offset, 8);
    put(&size, 4);
    put(name, length);
    put(data, size);
}

/* From Python: let the n-th call of a kind (from now, from 1) fail, and those after it, `times` in all. */
void recorder_fail(char kind, long n, int error, long times) {
    pthread_mutex_lock(&mutex);
    fail_kind = kind, fail_at = n, fail_error = error, fail_times = times;
    calls = failures = 0;
    pthread_mutex_unlock(&mutex);
}

long recorder_failures(void) { return failures; }

static int fails(char kind, const char *name) {
    if (kind != fail_kind || !strcmp(name, "acks")) return 0;
    if (++calls < fail_at || failures >= fail_times) return 0;
    failures++;
    errno = fail_error;
    return 1;
}

static ssize_t do_write(int file, const void *data, size_t size, off_t offset, int positioned) {
    char path[PATH_MAX];
    const char *name = name_of(file, path);
    ssize_t done = -1;
    if (!name) return positioned ? REAL(pwrite)(file, data, size, offset) : REAL(write)(file, data, size);
    pthread_mutex_lock(&mutex);
    if (!positioned) offset = lseek(file, 0, SEEK_CUR);
    if (!fails('w', name)) done = positioned ? REAL(pwrite)(file, data, size, offset) : REAL(write)(file, data, size);
    if (done > 0) record('w', name, offset, data, done);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t write(int file, const void *data, size_t size) { return do_write(file, data, size, 0, 0); }
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) { return do_write(file, data, size, offset, 1); }
ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) { return do_write(file, data, size, offset, 1); }

static int do_truncate(int file, off_t size) {
    char path[PATH_MAX];
    const char *name = name_of(file, path);
    int failed = -1;
    if (!name) return REAL(ftruncate)(file, size);
    pthread_mutex_lock(&mutex);
    if (!fails('t', name)) failed = REAL(ftruncate)(file, size);
    if (!failed) record('t', name, size, "", 0);
    pthread_mutex_unlock(&mutex);
    return failed;
}

int ftruncate(int file, off_t size) { return do_truncate(file, size); }
int ftruncate64(int file, off64_t size) { return do_truncate(file, size); }

static int do_sync(int file) {
    char path[PATH_MAX];
    const char *name = name_of(file, path);
    int failed = -1;
    if (!name) return REAL(fsync)(file);
    pthread_mutex_lock(&mutex);
    if (!fails('s', name)) failed = REAL(fsync)(file);
    if (!failed) record('s', name, 0, "", 0);
    pthread_mutex_unlock(&mutex);
    return failed;
}

int fsync(int file) { return do_sync(file); }
int fdatasync(int file) { return do_sync(file); }

static int do_open(const char *path, int flags, mode_t mode) {
    char resolved[PATH_MAX];
    struct stat before;
    pthread_mutex_lock(&mutex);
    int is_new = (flags & O_CREAT) && stat(path, &before);
    int file = REAL(open)(path, flags, mode);
    const char *name = file >= 0 && is_new ? name_of(file, resolved) : NULL;
    if (name) record('c', name, 0, "", 0);
    pthread_mutex_unlock(&mutex);
    return file;
}

#define OPEN(function)                                    \
    int function(const char *path, int flags, ...) {      \
        va_list rest;                                     \
        va_start(rest, flags);                            \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                     \
        return do_open(path, flags, mode);                \
    }
OPEN(open)
OPEN(open64)

int unlink(const char *path) {
    const char *name = inside(path);
    if (!name) return REAL(unlink)(path);
    pthread_mutex_lock(&mutex);
    int failed = REAL(unlink)(path);
    if (!failed) record('u', name, 0, "", 0);
    pthread_mutex_unlock(&mutex);
    return failed;
}

int rename(const char *from, const char *to) {
    if (inside(from) || inside(to)) abort();
    return REAL(rename)(from, to);
}
