# Tasks of a developer. `make` alone lists the targets.
#
# Each target first creates or updates .venv, so all of them work in a fresh
# clone with Python 3.11 or newer.

VENV  := .venv
READY := $(VENV)/.ready
CLI   := $(VENV)/.cli-ready
RUN   := $(VENV)/bin/python -m

# Containers often set it. Without compiled modules, each process of a test compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Three test processes, each with control planes of its own: live tests wait most of the time. On a cluster
# of --kubeconfig they would meet.
LIVE_PROCESSES = $(if $(findstring --kubeconfig,$(ARGS)),,-n 3 --dist loadfile --no-loadscope-reorder)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup kernel demo test test-slow test-browser live lint format bench bench-steady bench-consolidation bench-policies bench-kube bench-aws bench-dashboard screenshots docs chaos chaos-aws scale chip soak bench-hostile crds completion grafana charts dist man install-check image-check audit coverage mutants release-check requirements clean

help: ## List the targets
	@echo 'Dovetail: a node autoscaler for Kubernetes on AWS EKS'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Settings: PYTHON=python3.12 (the interpreter for .venv), ARGS="-k spread -x" (for test and bench)'

setup: $(READY) ## Create .venv with pinned versions (other targets do this if it is missing or stale)

kernel: $(READY) ## Build the optional compiled kernel of the fleet search again (needs a C compiler)
	@$(VENV)/bin/python setup.py --quiet build_ext --inplace --force
	@$(VENV)/bin/python -c 'from dovetail.core.scheduling.fleet import _kernel; print("built", _kernel.__file__)'

demo: $(CLI) ## Scale a simulated cluster to 100 pods and back
	@scripts/demo

test: $(READY) ## Run all tests but the slow ones, on all cores
	@$(RUN) pytest -n auto --dist worksteal -m 'not slow and not live and not browser' $(ARGS)

test-slow: $(READY) ## Run the slow tests: crashes at every step, whole processes in real time
	@$(RUN) pytest -n auto --dist worksteal -m 'slow and not live and not browser' $(ARGS)

test-browser: $(READY) ## Run the tests of dashboard and documentation in Chromium; installs it with apt if it is missing
	@CHROMIUM="$$(scripts/chromium)" && export CHROMIUM && $(RUN) pytest -n 2 --dist worksteal -m browser tests/dashboard tests/docs $(ARGS)

live: $(READY) ## Run the tests on real control planes, built with Go, or on ARGS=--kubeconfig=FILE
	@$(RUN) pytest -m live $(LIVE_PROCESSES) tests/live tests/contract $(ARGS)

lint: $(READY) ## Check style, types and layers
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports
	@if command -v tsc >/dev/null; then \
		echo tsc --noEmit && tsc --noEmit --project src/dovetail/dashboard; \
	else echo 'NOT CHECKED: types of the JavaScript; tsc (TypeScript) is not on the PATH' >&2; fi

format: $(READY) ## Format the code
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

bench: $(READY) ## Measure speed and cost of planning; one JSON line per case
	@$(RUN) bench.scheduling $(ARGS)

bench-steady: $(READY) ## Measure a simulated hour with 2,000 nodes; takes minutes
	@$(RUN) bench.steady $(ARGS)

bench-consolidation: $(READY) ## Measure consolidation: speed of a pass, final cost, evictions
	@$(RUN) bench.consolidation $(ARGS)

bench-policies: $(READY) ## Compare consolidation policies on four days: cost, evictions; takes minutes
	@$(RUN) bench.policies $(ARGS)

bench-kube: $(READY) ## Measure start-up and a decision with 5,000 nodes and 50,000 pods
	@$(RUN) bench.kube $(ARGS)

bench-hostile: $(READY) ## Measure the wait of ordinary pods beside pods that are expensive to plan
	@$(RUN) bench.hostile $(ARGS)

bench-aws: $(READY) ## Measure the AWS adapter against moto
	@$(RUN) bench.aws $(ARGS)

bench-dashboard: $(READY) ## Measure the dashboard with 2,000 nodes and 50,000 pods in Chromium
	@CHROMIUM="$$(scripts/chromium)" && export CHROMIUM && $(RUN) bench.dashboard $(ARGS)

screenshots: $(READY) ## Make the screenshots in docs/images from demos with a fixed seed
	@CHROMIUM="$$(scripts/chromium)" && export CHROMIUM && $(VENV)/bin/python scripts/screenshots.py && $(VENV)/bin/python scripts/top_screenshot.py docs/images/top.svg

docs: $(READY) ## Build the documentation site into build/site; broken links and anchors fail
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet \
		&& echo 'built build/site; to read it: python3 -m http.server --bind 127.0.0.1 --directory build/site'

chaos: $(READY) ## Attack replicas on a real control plane: kills, API faults, hostile objects; ARGS=--minutes=60
	@$(RUN) bench.chaos $(ARGS)

chaos-aws: $(READY) ## Run the AWS launch path for ten simulated hours of faults and kills; takes minutes
	@$(RUN) bench.chaos_aws $(ARGS)

soak: $(READY) ## Run 50 nodes for 30 simulated days of churn, faults and kills; ARGS='--days 1 --seed 2'
	@$(RUN) bench.soak $(ARGS)

scale: $(READY) ## Scale a real control plane to 3,000 pods and 300 nodes at once; takes minutes
	@$(RUN) bench.scale $(ARGS)

chip: $(READY) ## Let a HorizontalPodAutoscaler go from 4 pods to 100 and back on a real control plane
	@$(RUN) bench.chip $(ARGS)

crds: $(READY) ## Generate the CustomResourceDefinitions of the chart
	@$(RUN) dovetail crds --directory deploy/charts/dovetail-crd/templates

completion: $(READY) ## Generate the table of commands and options for shell completion
	@$(VENV)/bin/python scripts/completion

grafana: $(READY) ## Generate the Grafana dashboards of the chart
	@$(VENV)/bin/python scripts/grafana

# helm lint needs the two required values.
REQUIRED = --set settings.clusterName=demo --set controller.image.repository=registry.example/dovetail
HELM = helm
CHARTS = dist
charts: ## Package the Helm charts into dist/ (needs helm); REGISTRY=oci://HOST/PATH pushes them
	@command -v $(HELM) >/dev/null || { echo 'make charts needs helm on the PATH' >&2; exit 1; }
	@$(HELM) lint --strict --quiet deploy/charts/dovetail $(REQUIRED) && $(HELM) lint --strict --quiet deploy/charts/dovetail-crd
	@$(HELM) package --destination $(CHARTS) deploy/charts/*
	@$(if $(REGISTRY),for archive in $(CHARTS)/dovetail*-[0-9]*.tgz; do $(HELM) push $$archive $(REGISTRY) $(HELM_PUSH) || exit 1; done)

dist: $(READY) ## Build wheels, source archive and kubectl plugin of the last commit into dist/
	@$(VENV)/bin/python scripts/dist

man: $(READY) ## Write manual pages and shell completions into build/share
	@$(VENV)/bin/python scripts/manuals

PYTHONS = python3.11 python3.12 python3.13
install-check: dist ## Install dist/ with pip, pipx and uv in fresh environments; PYTHONS="python3.11 python3.12"
	@$(VENV)/bin/python scripts/install-check $(PYTHONS)

image-check: $(READY) ## Build the image without a registry and run it on a real control plane (needs root and Go)
	@$(RUN) pytest -m live tests/live/test_image.py -rs $(ARGS)

audit: $(READY) ## Look pinned packages up in a database of vulnerabilities
	@$(VENV)/bin/python scripts/audit $(ARGS)

coverage: $(READY) ## Measure the lines and branches that `make test` runs; ARGS=tests/core for a part
	@$(RUN) pytest -n auto --dist worksteal -m 'not slow and not live and not browser' --cov --cov-report= $(ARGS)
	@$(RUN) coverage report --skip-covered --sort=-cover | tail -40

mutants: $(READY) ## Change core/ in small ways and list the changes that no test notices; takes minutes
	@$(VENV)/bin/python scripts/mutants $(ARGS)

release-check: ## Run all that docs/contributing/release.md asks for before a release; takes hours
	@scripts/release-check

requirements: ## Compile requirements/*.in to pinned versions with hashes (needs uv)
	@command -v uv >/dev/null || { echo 'make requirements needs uv on the PATH' >&2; exit 1; }
	@for name in cli run dev build; do \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --no-header --no-annotate \
			requirements/$$name.in --output-file requirements/$$name.txt || exit 1; \
	done

clean: ## Remove .venv and all other generated files
	rm -rf $(VENV) build dist src/*.egg-info .coverage .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis src/dovetail/core/scheduling/fleet/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Both files hold the path of the checkout: scripts in .venv contain it, so a moved
# checkout is stale although no file is newer.
PROJECT := pyproject.toml setup.py scripts/setup requirements/build.txt $(wildcard src/dovetail/core/scheduling/fleet/*.c)
ifneq ($(shell cat $(READY) 2>/dev/null),$(shell pwd -P))
.PHONY: $(READY)
endif
ifneq ($(shell cat $(CLI) 2>/dev/null),$(shell pwd -P))
.PHONY: $(CLI)
endif
$(READY): requirements/dev.txt $(PROJECT)
	@PYTHON='$(PYTHON)' scripts/setup $(VENV) dev
$(CLI): requirements/cli.txt $(PROJECT)
	@PYTHON='$(PYTHON)' scripts/setup $(VENV) cli
