/*
 * What a libblkid.a built against glibc calls and musl does not have: the checked variants that
 * _FORTIFY_SOURCE puts in place of ordinary functions, and the C23 names of strtol and sscanf.
 * Each is the ordinary function without the check (their interfaces: Linux Standard Base, Core
 * Specification, "Interface Definitions for libc"). Built for musl targets only, from plain
 * declarations, so that no C library's headers are needed; the linker drops what nobody calls.
 */

typedef __builtin_va_list va_list;
typedef __SIZE_TYPE__ size_t;
typedef long ssize_t;

extern int vfprintf(void *, const char *, va_list);
extern int vsnprintf(char *, size_t, const char *, va_list);
extern int vasprintf(char **, const char *, va_list);
extern int vsscanf(const char *, const char *, va_list);
extern int vfscanf(void *, const char *, va_list);
extern int open(const char *, int, ...);
extern int openat(int, const char *, int, ...);
extern ssize_t read(int, void *, size_t);
extern ssize_t pread(int, void *, size_t, long);
extern ssize_t readlink(const char *, char *, size_t);
extern char *fgets(char *, int, void *);
extern char *realpath(const char *, char *);
extern void *memcpy(void *, const void *, size_t);
extern void *mempcpy(void *, const void *, size_t);
extern void *memmove(void *, const void *, size_t);
extern void *memset(void *, int, size_t);
extern char *strcpy(char *, const char *);
extern char *strncpy(char *, const char *, size_t);
extern char *strcat(char *, const char *);
extern size_t mbstowcs(int *, const char *, size_t);
extern int wctomb(char *, int);
extern long strtol(const char *, char **, int);
extern unsigned long strtoul(const char *, char **, int);
extern void explicit_bzero(void *, size_t);
extern void *calloc(size_t, size_t);
extern void free(void *);
extern void abort(void);

/* Forwards the arguments after `last` to a function that takes a va_list. */
#define FORWARD(call) \
	va_list ap; \
	__builtin_va_start(ap, format); \
	int n = call; \
	__builtin_va_end(ap); \
	return n

int __fprintf_chk(void *file, int flag, const char *format, ...)
{
	FORWARD(vfprintf(file, format, ap));
}

int __snprintf_chk(char *to, size_t most, int flag, size_t room, const char *format, ...)
{
	FORWARD(vsnprintf(to, most < room ? most : room, format, ap));
}

int __sprintf_chk(char *to, int flag, size_t room, const char *format, ...)
{
	FORWARD(vsnprintf(to, room > 0x7fffffff ? 0x7fffffff : room, format, ap));
}

int __asprintf_chk(char **to, int flag, const char *format, ...)
{
	FORWARD(vasprintf(to, format, ap));
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
	FORWARD(vsscanf(text, format, ap));
}

int __isoc23_fscanf(void *file, const char *format, ...)
{
	FORWARD(vfscanf(file, format, ap));
}

int __isoc23_vfscanf(void *file, const char *format, va_list ap)
{
	return vfscanf(file, format, ap);
}

int __vfprintf_chk(void *file, int flag, const char *format, va_list ap)
{
	return vfprintf(file, format, ap);
}

int __vsnprintf_chk(char *to, size_t most, int flag, size_t room, const char *format, va_list ap)
{
	return vsnprintf(to, most < room ? most : room, format, ap);
}

int __vasprintf_chk(char **to, int flag, const char *format, va_list ap)
{
	return vasprintf(to, format, ap);
}

int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

int __open64_2(const char *path, int flags)
{
	return open(path, flags);
}

int __openat_2(int dir, const char *path, int flags)
{
	return openat(dir, path, flags);
}

int __openat64_2(int dir, const char *path, int flags)
{
	return openat(dir, path, flags);
}

/* A write past the buffer is ended, as glibc does. */
static void check(size_t want, size_t room)
{
	if (want > room)
		abort();
}

ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
	check(n, room);
	return read(fd, to, n);
}

ssize_t __pread_chk(int fd, void *to, size_t n, long offset, size_t room)
{
	check(n, room);
	return pread(fd, to, n, offset);
}

ssize_t __pread64_chk(int fd, void *to, size_t n, long offset, size_t room)
{
	check(n, room);
	return pread(fd, to, n, offset);
}

ssize_t __readlink_chk(const char *path, char *to, size_t n, size_t room)
{
	check(n, room);
	return readlink(path, to, n);
}

char *__fgets_chk(char *to, size_t room, int n, void *file)
{
	check(n, room);
	return fgets(to, n, file);
}

char *__realpath_chk(const char *path, char *to, size_t room)
{
	check(4096, room);
	return realpath(path, to);
}

void *__memcpy_chk(void *to, const void *from, size_t n, size_t room)
{
	check(n, room);
	return memcpy(to, from, n);
}

void *__mempcpy_chk(void *to, const void *from, size_t n, size_t room)
{
	check(n, room);
	return mempcpy(to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t room)
{
	check(n, room);
	return memmove(to, from, n);
}

void *__memset_chk(void *to, int byte, size_t n, size_t room)
{
	check(n, room);
	return memset(to, byte, n);
}

char *__strncpy_chk(char *to, const char *from, size_t n, size_t room)
{
	check(n, room);
	return strncpy(to, from, n);
}

char *__strcpy_chk(char *to, const char *from, size_t room)
{
	check(__builtin_strlen(from) + 1, room);
	return strcpy(to, from);
}

char *__strcat_chk(char *to, const char *from, size_t room)
{
	check(__builtin_strlen(to) + __builtin_strlen(from) + 1, room);
	return strcat(to, from);
}

/* Here `n` and `room` count wide characters, of 32 bits on every machine that we build for. */
size_t __mbstowcs_chk(int *to, const char *from, size_t n, size_t room)
{
	check(n, room);
	return mbstowcs(to, from, n);
}

/* glibc wants room for its longest character, 16 bytes; what counts is the room for this one. */
int __wctomb_chk(char *to, int wide, size_t room)
{
	char bytes[4];
	int n = wctomb(to ? bytes : (char *)0, wide);

	if (to && n > 0) {
		check(n, room);
		memcpy(to, bytes, n);
	}
	return n;
}

void __explicit_bzero_chk(void *at, size_t n, size_t room)
{
	check(n, room);
	explicit_bzero(at, n);
}

long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}

long long __isoc23_strtoll(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}

unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
	return strtoul(text, end, base);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
	return strtoul(text, end, base);
}

long __isoc23_strtoimax(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}

unsigned long __isoc23_strtoumax(const char *text, char **end, int base)
{
	return strtoul(text, end, base);
}

/* CPU_ALLOC and CPU_FREE: a set of `count` bits in words of 64. */
void *__sched_cpualloc(size_t count)
{
	return calloc((count + 63) / 64, 8);
}

void __sched_cpufree(void *set)
{
	free(set);
}
