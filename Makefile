# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# Everything is built under build/: obj/<path>.o, lib/, bin/, unit/, and
# rdma-core/{stock,justitia}.  New source files are picked up by the wildcards
# below.  `make help` lists the targets and variables.

VERSION := 0.1.0
PREFIX ?= /usr/local
DESTDIR ?=
V ?=
T ?=
CFLAGS ?= -O2 -g

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
export PYTHONDONTWRITEBYTECODE := 1

ifneq ($(filter-out 0,$(V)),)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n' '$1' '$2'
override V :=
endif

# ---------------------------------------------------------------- dependencies

# Debian packages, and what each is for.
DEPS :=
# the build
DEPS += gcc libc6-dev make pkg-config
# rdma-core: its build system, the tool that patches it, what it links
DEPS += cmake ninja-build python3 patch libnl-3-dev libnl-route-3-dev
# the daemon: event loop, configuration file, status as JSON
DEPS += libsystemd-dev libconfuse-dev libjson-c-dev
# unit tests
DEPS += check
# system tests and the demo: stock programs that run on the emulated card
DEPS += perftest
# figures of the demo and the benchmarks
DEPS += gnuplot-nox
# the emulated card: where the instructions begin in a program that reads the time stamp counter
DEPS += libcapstone-dev
# instruction counts, wake-up counts, checks of the manual pages
DEPS += valgrind strace mandoc

DEPS_STAMP := build/.deps
DEPS_MISSING = command -v dpkg-query >/dev/null || { \
		echo 'deps: no dpkg here to ask; what is needed: $(sort $(DEPS))' >&2; \
		exit 0; \
	}; \
	have=" $$(dpkg-query -W -f '$${Package} $${db:Status-Status}\n' $(DEPS) 2>/dev/null | \
		sed -n 's/ installed$$//p' | tr '\n' ' ')"; \
	for p in $(sort $(DEPS)); do \
		case "$$have" in *" $$p "*) ;; *) printf '%s ' "$$p" ;; esac; \
	done

define DEPS_INSTALL
$(Q)missing=$$($(DEPS_MISSING)); \
if [ -z "$$missing" ]; then exit 0; fi; \
if [ "$$(id -u)" != 0 ]; then \
	echo "deps: missing packages: $$missing" >&2; \
	echo "deps: 'make deps' as root installs them" >&2; exit 1; \
fi; \
echo "  DEPS    installing $$missing"; \
export DEBIAN_FRONTEND=noninteractive; \
apt-get -qq update && \
apt-get -qq install -y --no-install-recommends $$missing >build/deps.log 2>&1 || \
	{ cat build/deps.log >&2; echo 'deps: apt-get failed' >&2; exit 1; }
$(Q)touch $(DEPS_STAMP)
endef

# ------------------------------------------------------------------- our parts

LIB_SRC := $(wildcard libjustitia/*.c libjustitia/core/*.c)
CORE_SRC := $(wildcard libjustitia/core/*.c)
CTL_SRC := $(wildcard justitiad/ctl*.c)
# All of the daemon that has no main(): justitiactl and the unit tests share it.
DAEMON_SRC := $(filter-out justitiad/main.c $(CTL_SRC),$(wildcard justitiad/*.c))
HCA_SRC := $(wildcard tests/softhca/*.c)
HCA_LIB_SRC := $(filter-out %/main.c,$(HCA_SRC))
HCA_BIN_SRC := $(filter-out tests/softhca/shim%.c tests/softhca/trap%.c,$(HCA_SRC))
# Pure parts of the emulated card, which unit tests link.
HCA_PURE_SRC := $(wildcard tests/softhca/nic*.c tests/softhca/fault*.c) \
	$(addprefix tests/softhca/,config.c device.c sysfs.c)

# A file with a main() is a program; the others are helpers that any may link.
with_main = $(if $1,$(shell grep -l '^int main\>' $1))
VERBS_SRC := $(wildcard tests/demo/*.c tests/bench/*.c tests/system/*.c)
PROG_SRC := $(call with_main,$(VERBS_SRC))
HELPER_SRC := $(filter-out $(PROG_SRC),$(VERBS_SRC))
UNIT_SRC := $(wildcard tests/unit/test_*.c)
TSAN_SRC := $(wildcard tests/unit/tsan_*.c)
UNIT_HELPER_SRC := $(filter-out $(UNIT_SRC) $(TSAN_SRC),$(wildcard tests/unit/*.c))

LIBJUSTITIA := $(if $(LIB_SRC),build/lib/libjustitia.so.0)
LIBS := $(LIBJUSTITIA) $(if $(CORE_SRC),build/lib/libjst-core.a) \
	$(if $(LIB_SRC),build/lib/libjustitia.a) \
	$(if $(HCA_SRC),build/lib/libsofthca.so)
BINS := $(if $(wildcard justitiad/main.c),build/bin/justitiad) \
	$(if $(CTL_SRC),build/bin/justitiactl) \
	$(if $(wildcard tests/softhca/main.c),build/bin/softhca)
PROGS := $(addprefix build/bin/,$(notdir $(basename $(PROG_SRC))))
UNITS := $(UNIT_SRC:tests/%.c=build/%)
TSANS := $(TSAN_SRC:tests/%.c=build/%)

# -------------------------------------------------------------------- settings

WARNINGS := -Wall -Wextra -Werror
INCLUDES := -I. -Ilibjustitia -isystem build/rdma-core/include
DEFINES := -D_GNU_SOURCE= -DJST_VERSION=\"$(VERSION)\"
BASE_CFLAGS := -std=gnu11 $(WARNINGS) $(DEFINES) $(INCLUDES) -pthread -fPIC
ASAN := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=undefined
# ThreadSanitizer does not see fences (which gcc would warn of): what is tested
# with it must not rest on one.
TSAN := -O1 -g -fno-omit-frame-pointer -fsanitize=thread -Wno-tsan
# The library never aborts: its assertions live in the sanitised builds.
build/obj/libjustitia/%.o: BASE_CFLAGS += -DNDEBUG

# pkg-config is asked when a recipe first needs it: the packages may only just
# have been installed.
PKGS := libsystemd libconfuse json-c
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS)))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $(shell pkg-config --libs $(PKGS)))$(PKG_LIBS)
CHECK_LIBS = $(eval CHECK_LIBS := $(shell pkg-config --libs check))$(CHECK_LIBS)

obj = $(patsubst %.c,build/obj$2/%.o,$1)
map = $(addprefix -Wl$(comma)--version-script=,$(wildcard $1))
comma := ,

# Objects are made again when the way to make them changes.
FLAGS := $(CC) $(BASE_CFLAGS) $(CFLAGS) / $(LDFLAGS) / $(ASAN) / $(TSAN)
ifneq ($(file <build/flags),$(FLAGS))
.PHONY: build/flags
endif

# ------------------------------------------------------------------ all, deps …

.PHONY: all deps demo check bench install clean distclean help
include providers/rdma-core.mk

all: $(RDMA_STOCK) $(RDMA_JUSTITIA) $(LIBS) $(BINS) $(PROGS)

deps:
	$(Q)mkdir -p build
	$(DEPS_INSTALL)

# The list above may have changed with the Makefile; otherwise looked at once.
$(DEPS_STAMP): Makefile
	$(Q)mkdir -p build
	$(DEPS_INSTALL)

build/flags: | $(DEPS_STAMP)
	$(Q)printf '%s\n' '$(FLAGS)' > $@

demo: all
	$(Q)python3 tests/demo/demo.py

bench: all
	$(Q)python3 tests/bench/run.py

# T=text runs only the test files whose path contains the text.
check: all $(UNITS) $(TSANS) build/lib-asan/libjustitia.so.0
	$(Q)CC='$(CC)' HEADER_CFLAGS='$(BASE_CFLAGS) $(PKG_CFLAGS)' \
	tests/run $(if $(T),--only '$(T)') \
		tests/arch/check $(UNITS) $(TSANS) $(sort $(wildcard tests/system/test_*.py))

# ----------------------------------------------------------------- compilation

# $1 suffix of the object directory, $2 flags of the variant
define compile
build/obj$1/%.o: %.c build/flags | $(DEPS_STAMP) $(RDMA_HEADERS)
	$$(call say,CC,$$<$(if $1, ($(1:-%=%))))
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE_CFLAGS) $$(PKG_CFLAGS) $$(CFLAGS) $2 -MMD -MP -c -o $$@ $$<
endef
$(eval $(call compile,,))
$(eval $(call compile,-asan,$(ASAN)))
$(eval $(call compile,-tsan,$(TSAN)))

-include $(shell find build/obj build/obj-asan build/obj-tsan -name '*.d' 2>/dev/null)

define archive
$(call say,AR,$@)
$(Q)mkdir -p $(@D)
$(Q)rm -f $@
$(Q)$(AR) rcs $@ $(filter %.o,$^)
endef

define link
$(call say,LD,$@)
$(Q)mkdir -p $(@D)
$(Q)$(CC) $(CFLAGS) $1 $(LDFLAGS) -pthread -o $@ $(filter %.o %.a,$^) $2
endef

# What each part links is the layering: core < library < daemon; the emulated
# card stands apart and uses none of them.

build/lib/libjst-core.a: $(call obj,$(CORE_SRC))
	$(archive)

build/lib/libjustitia.a: $(call obj,$(LIB_SRC))
	$(archive)

build/lib/libjustitia.so.0: $(call obj,$(LIB_SRC)) $(wildcard libjustitia/libjustitia.map)
	$(call link,-shared -Wl$(comma)-soname$(comma)libjustitia.so.0 -Wl$(comma)-z$(comma)defs \
		$(call map,libjustitia/libjustitia.map))
	$(Q)ln -sfn libjustitia.so.0 build/lib/libjustitia.so

# The same, sanitised: system tests put it in the other's place.
build/lib-asan/libjustitia.so.0: $(call obj,$(LIB_SRC),-asan) $(wildcard libjustitia/libjustitia.map)
	$(call link,$(ASAN) -shared -Wl$(comma)-soname$(comma)libjustitia.so.0 \
		$(call map,libjustitia/libjustitia.map))

build/lib/libjustitiad.a: $(call obj,$(DAEMON_SRC))
	$(archive)

build/bin/justitiad: build/obj/justitiad/main.o build/lib/libjustitiad.a build/lib/libjustitia.a
	$(call link,,$(PKG_LIBS))

build/bin/justitiactl: $(call obj,$(CTL_SRC)) build/lib/libjustitiad.a build/lib/libjustitia.a
	$(call link,,$(PKG_LIBS))

build/lib/libsofthca.so: $(call obj,$(HCA_LIB_SRC)) $(wildcard tests/softhca/softhca.map)
	$(call link,-shared -Wl$(comma)-z$(comma)defs $(call map,tests/softhca/softhca.map),-lm)

build/bin/softhca: $(call obj,$(HCA_BIN_SRC))
	$(call link,,-lm)

build/lib/libtests.a: $(call obj,$(HELPER_SRC))
	$(archive)

# Verbs programs run with LD_LIBRARY_PATH at the tree under test.
define prog
build/bin/$(notdir $(basename $1)): $(call obj,$1) build/lib/libtests.a | $(RDMA_STOCK)
	$$(call link,,-L$(RDMA)/stock/lib -libverbs -lrdmacm -lm)
endef
$(foreach p,$(PROG_SRC),$(eval $(call prog,$p)))

# Unit tests: sanitised objects of the test and of what it tests.
define unit_lib
build/unit/lib-$1.a: $(call obj,$(LIB_SRC) $(DAEMON_SRC) $(CTL_SRC) $(HCA_PURE_SRC),-$1) \
		$(call obj,$(UNIT_HELPER_SRC),-$1)
	$$(archive)
endef
$(eval $(call unit_lib,asan))
$(eval $(call unit_lib,tsan))

$(UNITS): build/unit/%: build/obj-asan/tests/unit/%.o build/unit/lib-asan.a
	$(call link,$(ASAN),$(CHECK_LIBS) $(PKG_LIBS) -lm)

$(TSANS): build/unit/%: build/obj-tsan/tests/unit/%.o build/unit/lib-tsan.a
	$(call link,$(TSAN),$(CHECK_LIBS) $(PKG_LIBS) -lm)

# -------------------------------------------------------------------- clean up

# rdma-core and its download stay: nothing of ours is in stock/, and making them
# again costs a minute and the network.
clean:
	$(Q)find build -mindepth 1 -maxdepth 1 ! -name apt ! -name rdma-core \
		-exec rm -rf {} + 2>/dev/null || true

distclean:
	$(Q)rm -rf build

# --------------------------------------------------------------------- install

# The patched drivers are not installed here: over the system's own they are a
# package's business.
INSTALL = install -D -m $1 $2 $(DESTDIR)$(PREFIX)/$3
MAN := $(wildcard man/*.[1-8])

install: $(LIBS) $(BINS)
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)$(call INSTALL,644,build/lib/libjustitia.so.0,lib/libjustitia.so.0)
	$(Q)ln -sfn libjustitia.so.0 $(DESTDIR)$(PREFIX)/lib/libjustitia.so
	$(Q)$(call INSTALL,644,libjustitia/justitia.h,include/justitia.h)
	$(Q)$(call INSTALL,644,libjustitia/justitia.pc.in,lib/pkgconfig/justitia.pc)
	$(Q)sed -i -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig/justitia.pc
	$(Q)$(call INSTALL,755,build/bin/justitiad,sbin/justitiad)
	$(Q)$(call INSTALL,755,build/bin/justitiactl,bin/justitiactl)
	$(Q)set -e; for m in $(MAN); do \
		$(call INSTALL,644,$$m,share/man/man$${m##*.}/$${m##*/}); done

# ------------------------------------------------------------------------ help

define HELP
make            build everything (as root, packages that are missing are installed first)
make deps       install the Debian packages that the build and the tests need
make demo       three emulated hosts: alone, shared, shared with Justitia
make check      all tests; T=text runs only the files whose path contains the text
make bench      the long measurements
make install    into DESTDIR and PREFIX ($(PREFIX)); not the patched drivers
make clean      remove our objects; rdma-core and its download stay
make distclean  remove build/

V=1                       show the commands
RDMA_CORE_VERSION=        version of the source package ($(RDMA_CORE_VERSION))
RDMA_CORE_SUITE=          distribution suite it is taken from ($(RDMA_CORE_SUITE))
RDMA_CORE_SRC=dir         use this rdma-core tree instead (copied, not modified)
CC= CFLAGS= LDFLAGS=      as usual
endef
export HELP

help:
	@echo "$$HELP"
