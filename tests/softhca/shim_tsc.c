// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The processor's time stamp counter, on the virtual clock. Each `rdtsc` and `rdtscp` in the
 * program's text is replaced by an instruction of the same length that is none; the fault's
 * handler answers for it. Where instructions begin a disassembler knows (libcapstone).
 */
#include <capstone/capstone.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "hca.h"
#include "shim.h"

#define MAX_SITES 4096

static struct sigaction theirs;		/* what the application wants for SIGILL */
static uintptr_t site[MAX_SITES];	/* in no order */
static uint32_t sites;

static struct {
	__typeof__(&cs_open) open;
	__typeof__(&cs_option) option;
	__typeof__(&cs_malloc) malloc;
	__typeof__(&cs_disasm_iter) next;
	__typeof__(&cs_free) free;
	__typeof__(&cs_close) close;
} cs;

/* ---- the fault ---- */

static bool is_site(uintptr_t at)
{
	for (uint32_t i = 0; i < sites; i++)
		if (site[i] == at)
			return true;
	return false;
}

static void on_illegal(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	greg_t *regs = uc->uc_mcontext.gregs;
	const uint8_t *ip = (const uint8_t *)regs[REG_RIP];
	uint64_t tsc;

	if (!is_site((uintptr_t)ip)) {
		hca_pass_on(&theirs, sig, si, context);
		return;
	}
	tsc = vc_read_ns() * VC_TSC_MHZ / 1000;
	regs[REG_RAX] = (greg_t)(uint32_t)tsc;
	regs[REG_RDX] = (greg_t)(tsc >> 32);
	/* The third byte of an rdtscp was left as it was. */
	if (ip[2] == 0xf9) {
		regs[REG_RCX] = 0;
		regs[REG_RIP]++;
	}
	regs[REG_RIP] += 2;
}

/* ---- finding and replacing ---- */

static void replace(uintptr_t at, size_t bytes)
{
	static const uint8_t ud2[2] = { 0x0f, 0x0b };
	uintptr_t page = at & ~4095ul;

	if (sites == MAX_SITES || (bytes == 2 && ((const uint8_t *)at)[2] == 0xf9))
		return;
	if (mprotect((void *)page, at + 2 - page, PROT_READ | PROT_WRITE | PROT_EXEC))
		return;
	memcpy((void *)at, ud2, 2);
	mprotect((void *)page, at + 2 - page, PROT_READ | PROT_EXEC);
	site[sites++] = at;
}

static bool has_any(const uint8_t *text, size_t bytes)
{
	static const uint8_t rdtsc[2] = { 0x0f, 0x31 }, rdtscp[3] = { 0x0f, 0x01, 0xf9 };

	return memmem(text, bytes, rdtsc, 2) || memmem(text, bytes, rdtscp, 3);
}

static bool load_disassembler(void)
{
	void *lib = cs.open ? NULL : dlopen("libcapstone.so.4", RTLD_NOW | RTLD_LOCAL);

	if (lib) {
		cs.open = (__typeof__(cs.open))dlsym(lib, "cs_open");
		cs.option = (__typeof__(cs.option))dlsym(lib, "cs_option");
		cs.malloc = (__typeof__(cs.malloc))dlsym(lib, "cs_malloc");
		cs.next = (__typeof__(cs.next))dlsym(lib, "cs_disasm_iter");
		cs.free = (__typeof__(cs.free))dlsym(lib, "cs_free");
		cs.close = (__typeof__(cs.close))dlsym(lib, "cs_close");
	}
	return cs.open != NULL;
}

static void sweep(const uint8_t *text, size_t bytes)
{
	uint64_t address = (uintptr_t)text;
	cs_insn *insn;
	csh handle;

	if (cs.open(CS_ARCH_X86, CS_MODE_64, &handle))
		return;
	cs.option(handle, CS_OPT_SKIPDATA, CS_OPT_ON);
	insn = cs.malloc(handle);
	while (insn && cs.next(handle, &text, &bytes, &address, insn))
		if (insn->id == X86_INS_RDTSC || insn->id == X86_INS_RDTSCP)
			replace(insn->address, insn->size);
	if (insn)
		cs.free(insn, 1);
	cs.close(&handle);
}

/* What belongs to the system asks the kernel's page for the time, which answers by our functions. */
static bool is_system(const char *name)
{
	const char *base = strrchr(name, '/');

	base = base ? base + 1 : name;
	return !strncmp(base, "libc.", 5) || !strncmp(base, "ld-linux", 8) ||
	       !strncmp(base, "linux-vdso", 10) || !strncmp(base, "libsofthca", 10) ||
	       !strncmp(base, "libcapstone", 11);
}

static int look_into(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	(void)bytes;
	(void)unused;
	if (is_system(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint8_t *text = (const uint8_t *)(info->dlpi_addr + p->p_vaddr);

		if (p->p_type == PT_LOAD && p->p_flags & PF_X && has_any(text, p->p_memsz) &&
		    load_disassembler())
			sweep(text, p->p_memsz);
	}
	return 0;
}

void hca_tsc_begin(void)
{
	struct sigaction sa = { .sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO | SA_RESTART };

	dl_iterate_phdr(look_into, NULL);
	if (sites)
		sigaction(SIGILL, &sa, &theirs);
}

/* ---- what the processor is said to be ---- */

static const char cpuinfo[] =
	"processor\t: 0\n"
	"vendor_id\t: softhca\n"
	"model name\t: virtual clock\n"
	"cpu MHz\t\t: 2000.000\n"
	"flags\t\t: constant_tsc nonstop_tsc\n"
	"\n";

_Static_assert(VC_TSC_MHZ == 2000, "as /proc/cpuinfo says");

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	REAL(fopen);
	if (vc_is_virtual() && path && !strcmp(path, "/proc/cpuinfo"))
		return fmemopen((void *)cpuinfo, sizeof(cpuinfo) - 1, "r");
	return real(path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	return fopen(path, mode);
}
