# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# rdma-core, twice: as it is, and with Justitia in its drivers.  Included by the
# Makefile, which defines Q, say, DEPS_STAMP and LIBJUSTITIA.
#
#   package or tree -> src-stock -> stock/      the comparison, never patched
#                          |
#                          `-> src-justitia -> justitia/
#
# Both are built in place: LD_LIBRARY_PATH=build/rdma-core/<tree>/lib suffices,
# and each libibverbs finds its own tree's drivers.

RDMA_CORE_VERSION ?= 56.1-1
RDMA_CORE_SUITE ?= trixie
RDMA_CORE_SRC ?=

# Drivers that are built.  One with a directory here gets what lies in it.
RDMA_DRIVERS := mlx5 mlx4 rxe
RDMA_TARGETS := ibverbs rdmacm ibumad $(RDMA_DRIVERS:%=providers/%/all) \
	ibv_asyncwatch ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong \
	ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong \
	rping ucmatose udaddy udpong mckey rdma_client rdma_server rdma_xclient \
	rdma_xserver rcopy riostream rstream

RDMA := build/rdma-core
RDMA_STOCK := $(RDMA)/stock/.built
RDMA_JUSTITIA := $(RDMA)/justitia/.built
# The verbs headers alone, without the private ones that lie beside them.
RDMA_HEADERS := $(RDMA)/include/.made

RDMA_CMAKE := -GNinja -DIN_PLACE=1 -DNO_MAN_PAGES=1 -DNO_PYVERBS=1 \
	-DCMAKE_BUILD_TYPE=RelWithDebInfo
RDMA_CMAKE_justitia = -DCMAKE_C_FLAGS="-I$(CURDIR) -I$(CURDIR)/libjustitia" \
	-DCMAKE_SHARED_LINKER_FLAGS="$(RDMA_LDFLAGS)" \
	-DCMAKE_MODULE_LINKER_FLAGS="$(RDMA_LDFLAGS)"
RDMA_LDFLAGS = -L$(CURDIR)/build/lib -Wl,-rpath,$(CURDIR)/build/lib
# On a terminal ninja's own progress line is best; in a log one line is enough.
NINJA = ninja -j $$(nproc) $(if $(V),-v,$$([ -t 1 ] || echo --quiet))

RDMA_GLUE := $(wildcard providers/glue*.[ch] $(foreach d,$(RDMA_DRIVERS),\
	providers/$d providers/$d/*.patch providers/$d/*.[ch]))

# Where the source came from is remembered; another wish fetches it anew, and so
# does a user's tree that has changed.
ifneq ($(RDMA_CORE_SRC),)
RDMA_ORIGIN := tree $(abspath $(RDMA_CORE_SRC))
RDMA_FETCH := --from '$(abspath $(RDMA_CORE_SRC))'
RDMA_NEWER := $(shell find '$(RDMA_CORE_SRC)' -path '*/.git' -prune -o -path '*/build' -prune \
	-o -type f -newer $(RDMA)/origin -print -quit 2>/dev/null)
else
RDMA_ORIGIN := package $(RDMA_CORE_VERSION) from $(RDMA_CORE_SUITE)
RDMA_FETCH := --version '$(RDMA_CORE_VERSION)' --suite '$(RDMA_CORE_SUITE)' --apt-dir build/apt
endif
ifneq ($(RDMA_NEWER)$(file <$(RDMA)/origin),$(RDMA_ORIGIN))
.PHONY: $(RDMA)/origin
endif

$(RDMA)/origin: | $(DEPS_STAMP)
	$(call say,FETCH,rdma-core: $(RDMA_ORIGIN))
	$(Q)providers/fetch-rdma-core $(RDMA_FETCH) --into $(RDMA)/src-stock
	$(Q)rm -rf $(RDMA)/src-justitia $(RDMA)/stock $(RDMA)/justitia $(RDMA)/include
	$(Q)echo '$(RDMA_ORIGIN)' > $@

$(RDMA)/patched: $(RDMA)/origin $(RDMA_GLUE) providers/patch-rdma-core providers/rdma-core.mk
	$(call say,PATCH,rdma-core: $(RDMA_DRIVERS))
	$(Q)providers/patch-rdma-core $(RDMA)/src-stock $(RDMA)/src-justitia $(RDMA_DRIVERS)
	$(Q)touch $@

$(RDMA)/%/.configured: $(RDMA)/origin providers/rdma-core.mk
	$(call say,CMAKE,rdma-core ($*): about 10 s)
	$(Q)mkdir -p $(@D)
	$(Q)cmake -S $(RDMA)/src-$* -B $(RDMA)/$* $(RDMA_CMAKE) $(RDMA_CMAKE_$*) \
		> $(@D)/configure.log 2>&1 || { cat $(@D)/configure.log >&2; exit 1; }
	$(Q)touch $@

# The in-place build lists every driver of rdma-core; libibverbs would warn of
# each that is not built.
$(RDMA)/%/.built: $(RDMA)/%/.configured
	$(call say,NINJA,rdma-core ($*): about 30 s on two cores when all is new)
	$(Q)$(NINJA) -C $(RDMA)/$* $(RDMA_TARGETS)
	$(Q)cd $(RDMA)/$*/etc/libibverbs.d && \
		for d in *.driver; do \
			case ' $(RDMA_DRIVERS) ' in *" $${d%.driver} "*) ;; *) rm "$$d" ;; esac; \
		done
	$(Q)touch $@

$(RDMA)/justitia/.configured: | $(RDMA)/patched
$(RDMA)/justitia/.built: $(RDMA)/patched $(wildcard libjustitia/*.h libjustitia/core/*.h) \
	| $(LIBJUSTITIA)

$(RDMA_HEADERS): $(RDMA)/stock/.configured
	$(Q)mkdir -p $(@D)
	$(Q)ln -sfn ../stock/include/infiniband ../stock/include/rdma $(@D)/
	$(Q)touch $@
