/*
 * Lets Debian's user-mode Linux run on processors with large register files.
 *
 * That kernel keeps the extended state (XSAVE) of its processes in a buffer of fixed size, and reads
 * and writes it with ptrace. Where the processor's state is larger than the buffer (with AMX it has
 * 11 KB), Linux refuses to set a state that lacks a part, and the kernel gives up. This library,
 * loaded before the C library, stands in between: reading, it cuts the state to what was asked for;
 * writing, it first reads the whole state and replaces the part that was given. The processes under
 * that kernel don't use the rest.
 */
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

/* Twice the size of the largest state that there is today. */
static _Thread_local unsigned char whole_state[24576] __attribute__((aligned(64)));

static long ask_kernel(long request, pid_t process, void *address, void *data)
{
	return syscall(SYS_ptrace, request, process, address, data);
}

static long read_state(pid_t process, void *kind, struct iovec *state)
{
	state->iov_base = whole_state;
	state->iov_len = sizeof(whole_state);
	return ask_kernel(PTRACE_GETREGSET, process, kind, state);
}

static size_t shorter(size_t one, size_t other)
{
	return one < other ? one : other;
}

static long get_state(pid_t process, void *kind, struct iovec *wanted)
{
	struct iovec state;
	long result = read_state(process, kind, &state);
	if (result < 0)
		return result;
	wanted->iov_len = shorter(wanted->iov_len, state.iov_len);
	memcpy(wanted->iov_base, whole_state, wanted->iov_len);
	return result;
}

static long set_state(pid_t process, void *kind, const struct iovec *given)
{
	struct iovec state;
	long result = read_state(process, kind, &state);
	if (result < 0)
		return result;
	memcpy(whole_state, given->iov_base, shorter(given->iov_len, state.iov_len));
	return ask_kernel(PTRACE_SETREGSET, process, kind, &state);
}

/* The C library returns what the kernel writes to `data` for these three. */
static long peek(long request, pid_t process, void *address)
{
	long word;
	long result = ask_kernel(request, process, address, &word);
	return result < 0 ? result : word;
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;
	va_start(rest, request);
	pid_t process = va_arg(rest, pid_t);
	void *address = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);

	int is_state = (long)address == NT_X86_XSTATE;
	if (request == PTRACE_GETREGSET && is_state)
		return get_state(process, address, data);
	if (request == PTRACE_SETREGSET && is_state)
		return set_state(process, address, data);
	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER)
		return peek(request, process, address);
	return ask_kernel(request, process, address, data);
}
