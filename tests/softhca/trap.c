// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Doorbells by fault. Doorbell pages have no access rights; a store to one faults, and the
 * handler decodes the instruction, tells the card, and steps over it. That is exact for
 * every way of posting, also for code that does not go through the verbs' tables.
 *
 * For that the handler must stay installed and its signal unblocked: the functions that
 * could change either are wrapped, and what the application wanted is remembered.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "app.h"
#include "shim.h"
#include "trap.h"

#define MAX_PAGES 1024
#define PAGE_BYTES 4096u

static uintptr_t page[MAX_PAGES];	/* 0 = free; read by the handler without a lock */
static uint32_t page_number[MAX_PAGES];	/* among the pages of its command file */
static struct sigaction theirs;		/* what the application wants for SIGSEGV */
static bool installed;

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static int (*real_sigmask)(int, const sigset_t *, sigset_t *);
static int (*real_procmask)(int, const sigset_t *, sigset_t *);

static void resolve(void)
{
	real_sigaction = dlsym(RTLD_NEXT, "sigaction");
	real_sigmask = dlsym(RTLD_NEXT, "pthread_sigmask");
	real_procmask = dlsym(RTLD_NEXT, "sigprocmask");
}

static int find_page(uintptr_t addr)
{
	for (int i = 0; i < MAX_PAGES; i++) {
		uintptr_t p = __atomic_load_n(&page[i], __ATOMIC_RELAXED);

		if (p && addr - p < PAGE_BYTES)
			return i;
	}
	return -1;
}

/* One decoded store: up to 16 bytes, and the instruction's length. */
struct store { uint8_t data[16]; uint32_t bytes, length; };

static uint64_t reg_value(const ucontext_t *uc, int r)
{
	static const int greg[16] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};

	return (uint64_t)uc->uc_mcontext.gregs[greg[r]];
}

/* Bytes of a ModRM operand in memory: the byte itself, SIB and displacement. */
static uint32_t modrm_bytes(const uint8_t *p)
{
	uint32_t mod = p[0] >> 6, rm = p[0] & 7, n = 1;

	if (rm == 4) {
		if (mod == 0 && (p[1] & 7) == 5)
			n += 4;
		n++;
	}
	if (mod == 1)
		n += 1;
	else if (mod == 2 || (mod == 0 && rm == 5))
		n += 4;
	return n;
}

struct prefix { uint32_t bytes; uint8_t rex, op16, rep, map0f, wide; int vex; };

static void take_rex(uint8_t b, struct prefix *x)
{
	x->rex = b;
	x->wide = b >> 3 & 1;
}

/* Two and three byte VEX: the register extension is inverted, pp stands for 66/F3/F2. */
static void take_vex(const uint8_t *p, struct prefix *x)
{
	bool is_short = *p == 0xc5;
	uint8_t last = is_short ? p[1] : p[2];

	x->rex = p[1] & 0x80 ? 0 : 4;
	x->wide = !is_short && last >> 7;
	x->op16 = (last & 3) == 1;
	x->rep = (last & 3) >> 1;
	x->vex = last >> 2 & 1 ? 32 : 16;
	x->map0f = 1;
	x->bytes = is_short ? 2 : 3;
}

static struct prefix take_prefixes(const uint8_t *p)
{
	struct prefix x = { 0 };

	if (*p == 0xc5 || *p == 0xc4) {
		take_vex(p, &x);
		return x;
	}
	for (;; x.bytes++) {
		uint8_t b = p[x.bytes];

		if (b == 0x66)
			x.op16 = 1;
		else if (b == 0xf3 || b == 0xf2)
			x.rep = 1;
		else if ((b & 0xf0) == 0x40)
			take_rex(b, &x);
		else
			break;
	}
	if (p[x.bytes] == 0x0f) {
		x.map0f = 1;
		x.bytes++;
	}
	return x;
}

static bool from_gpr(const ucontext_t *uc, const struct prefix *x, int reg, struct store *out)
{
	uint64_t v = reg_value(uc, reg);

	out->bytes = x->wide ? 8 : 4;
	memcpy(out->data, &v, 8);
	return true;
}

static bool from_xmm(const ucontext_t *uc, int reg, uint32_t bytes, struct store *out)
{
	const struct _libc_fpstate *fp = uc->uc_mcontext.fpregs;

	if (!fp)
		return false;
	out->bytes = bytes;
	memcpy(out->data, &fp->_xmm[reg], 16);
	return true;
}

static bool from_imm(const uint8_t *imm, const struct prefix *x, struct store *out)
{
	int32_t v;
	int64_t wide;

	memcpy(&v, imm, 4);
	wide = v;
	out->bytes = x->wide ? 8 : 4;
	memcpy(out->data, &wide, 8);
	out->length += 4;
	return true;
}

/* What a compiler makes of a store of 4, 8 or 16 bytes. */
static bool decode(const ucontext_t *uc, struct store *out)
{
	const uint8_t *ip = (const uint8_t *)uc->uc_mcontext.gregs[REG_RIP];
	struct prefix x = take_prefixes(ip);
	const uint8_t *op = ip + x.bytes;
	int reg = (op[1] >> 3 & 7) | (x.rex & 4) << 1;

	memset(out, 0, sizeof(*out));
	out->length = x.bytes + 1 + modrm_bytes(op + 1);
	if (!x.map0f) {
		if (*op == 0x89 || *op == 0x87)		/* mov, xchg: nothing is read back */
			return !x.op16 && from_gpr(uc, &x, reg, out);
		if (*op == 0xc7)
			return !x.op16 && from_imm(ip + out->length, &x, out);
		return false;
	}
	switch (*op) {
	case 0xc3:					/* movnti */
		return from_gpr(uc, &x, reg, out);
	case 0xd6: case 0x13: case 0x17:		/* movq, movlps; movhps is never one */
		return *op != 0x17 && from_xmm(uc, reg, 8, out);
	case 0x7e:					/* movd, movq */
		return from_xmm(uc, reg, x.wide ? 8 : 4, out);
	case 0x11: case 0x29: case 0x2b: case 0x7f: case 0xe7:
		return from_xmm(uc, reg, 16, out);	/* the rest of a wider store is data */
	default:
		return false;
	}
}

static void die(const ucontext_t *uc)
{
	const uint8_t *ip = (const uint8_t *)uc->uc_mcontext.gregs[REG_RIP];
	char text[128];
	int n = snprintf(text, sizeof(text),
			 "softhca: cannot decode the doorbell store %02x %02x %02x %02x %02x %02x\n",
			 ip[0], ip[1], ip[2], ip[3], ip[4], ip[5]);

	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		abort();
	abort();
}

void hca_pass_on(const struct sigaction *to, int sig, void *si, void *context)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	if (to->sa_flags & SA_SIGINFO && to->sa_sigaction) {
		to->sa_sigaction(sig, si, context);
	} else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN) {
		to->sa_handler(sig);
	} else {
		/* Back to the faulting instruction, without us. */
		if (!real_sigaction)
			resolve();
		real_sigaction(sig, &dfl, NULL);
	}
}

static void on_fault(int sig, siginfo_t *si, void *context)
{
	uintptr_t at = (uintptr_t)si->si_addr;
	ucontext_t *uc = context;
	int saved = errno, i = find_page(at);
	struct store s;
	uint64_t value;

	if (i < 0) {
		hca_pass_on(&theirs, sig, si, context);
		return;
	}
	if (!decode(uc, &s))
		die(uc);
	memcpy(&value, s.data, 8);
	hca_app_uar_store(page_number[i] * PAGE_BYTES + at % PAGE_BYTES, value, s.bytes);
	uc->uc_mcontext.gregs[REG_RIP] += s.length;
	errno = saved;
}

static void install(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (installed)
		return;
	if (!real_sigaction)
		resolve();
	/* No other handler may interrupt one that holds the ring. */
	sigfillset(&sa.sa_mask);
	sigdelset(&sa.sa_mask, SIGSEGV);
	real_sigaction(SIGSEGV, &sa, &theirs);
	installed = true;
}

int hca_trap_add(void *addr, size_t bytes, uint32_t number)
{
	install();
	for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
		uintptr_t none, p = (uintptr_t)addr + at;
		int i;

		for (i = 0; i < MAX_PAGES; i++) {
			none = 0;
			if (__atomic_compare_exchange_n(&page[i], &none, p, false,
							__ATOMIC_RELEASE, __ATOMIC_RELAXED))
				break;
		}
		if (i == MAX_PAGES)
			return -ENOMEM;
		page_number[i] = number + (uint32_t)(at / PAGE_BYTES);
	}
	return 0;
}

void hca_trap_del(void *addr, size_t bytes)
{
	if (!installed)
		return;
	for (int i = 0; i < MAX_PAGES; i++)
		if (page[i] && page[i] - (uintptr_t)addr < bytes)
			__atomic_store_n(&page[i], 0, __ATOMIC_RELAXED);
}

/* ---- interposed ---- */

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction mine;

	if (!real_sigaction)
		resolve();
	if (sig == SIGSEGV && installed) {
		if (old)
			*old = theirs;
		if (act)
			theirs = *act;
		return 0;
	}
	if (!act)
		return real_sigaction(sig, act, old);
	mine = *act;
	sigdelset(&mine.sa_mask, SIGSEGV);
	return real_sigaction(sig, &mine, old);
}

typedef void handler(int);

handler *signal(int sig, handler *h)
{
	struct sigaction sa = { .sa_handler = h, .sa_flags = SA_RESTART }, old;

	return sigaction(sig, &sa, &old) ? SIG_ERR : old.sa_handler;
}

/* What the handlers of ours need stays unblocked; the clock's own signal stays blocked. */
static const sigset_t *spare_ours(int how, const sigset_t *set, sigset_t *copy)
{
	if (!set)
		return set;
	*copy = *set;
	if (how == SIG_UNBLOCK) {
		if (vc_is_virtual())
			sigdelset(copy, VC_SIGNAL);
		return copy;
	}
	sigdelset(copy, SIGSEGV);
	if (vc_is_virtual()) {
		sigdelset(copy, SIGILL);
		sigdelset(copy, SIGTRAP);
		sigdelset(copy, VC_SPIN_SIGNAL);
		sigaddset(copy, VC_SIGNAL);
	}
	return copy;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	if (!real_sigmask)
		resolve();
	return real_sigmask(how, spare_ours(how, set, &copy), old);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	if (!real_procmask)
		resolve();
	return real_procmask(how, spare_ours(how, set, &copy), old);
}
