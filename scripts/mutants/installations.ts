/** An installation stores everything or nothing. */
import type { Mutant } from "./mutant.ts";

const INSTALLATIONS = "packages/registry/src/installations/installations.ts";
const PARTS = "packages/registry/src/installations/import-parts.ts";
const BINDINGS = "packages/registry/src/installations/plan-bindings.ts";
const INSTALLATION_RIGHTS_TESTS = ["packages/registry/test/installations/installation-rights.test.ts"];
const DRY_RUN_TESTS = ["packages/registry/test/installations/dry-run.test.ts"];
const INSTALLATIONS_TESTS = ["packages/registry/test/installations/installations.test.ts"];

export const INSTALLATION_DEFENSES: Mutant[] = [
  {
    name: "installations: the bytes of a failed installation are discarded",
    file: INSTALLATIONS,
    from: "        await imported_parts.held.discard();\n",
    to: "        void imported_parts.held;\n",
    tests: INSTALLATIONS_TESTS,
  },
  {
    name: "installations: packages and bindings are stored in one transaction",
    file: INSTALLATIONS,
    from: "        const stored = await writeClaimed(\n",
    to: "        await store.installations.commit({ packages, moved: [], created: [] });\n        const stored = await writeClaimed(\n",
    tests: INSTALLATIONS_TESTS,
  },
  {
    name: "installations: a changed binding is planned again",
    file: INSTALLATIONS,
    from: 'if (codeOf(error) !== "binding.conflict" || attempt >= MAX_ATTEMPTS) throw error;',
    to: "if (attempt > 0) throw error;",
    tests: INSTALLATIONS_TESTS,
  },
  {
    name: "installations: an installation that binds needs the scope bindings:write",
    file: INSTALLATIONS,
    from: 'if (binds) requireScope(caller, "bindings:write");\n    else requireNoSettings(settings);',
    to: "if (!binds) requireNoSettings(settings);\n    void requireScope;",
    tests: INSTALLATION_RIGHTS_TESTS,
  },
  {
    name: "installations: only the host's admin reads a folder",
    file: INSTALLATIONS,
    from: 'if (source.kind === "folder" && caller.actor !== HOST_ADMIN)',
    to: 'if (source.kind === "folder" && caller.actor === "")',
    tests: INSTALLATION_RIGHTS_TESTS,
  },
  {
    name: "installations: a strict installation installs nothing if a part is left out",
    file: PARTS,
    from: "if (strict || parts.length === 0) requireComplete(left_out, opened);",
    to: "if (parts.length === 0) requireComplete(left_out, opened);",
    tests: INSTALLATIONS_TESTS,
  },
  {
    name: "installations: a dry run stores nothing",
    file: INSTALLATIONS,
    from: "if (settings.dry_run === true) return {",
    to: "if (settings.dry_run === null) return {",
    tests: DRY_RUN_TESTS,
  },
  {
    name: "installations: a dry run keeps no bytes",
    file: INSTALLATIONS,
    from: "if (!dry_run) imported_parts.held.release();",
    to: "imported_parts.held.release();",
    tests: DRY_RUN_TESTS,
  },
  {
    name: "installations: a dry run starts nothing and announces nothing",
    file: INSTALLATIONS,
    from: "const changes = dry_run ? [] : stored.bindings",
    to: "const changes = stored.bindings",
    tests: DRY_RUN_TESTS,
  },
  {
    name: "installations: a dry run runs no code of the source",
    file: INSTALLATIONS,
    from: "if (dry_run) requireNoCode(settings);",
    to: "void requireNoCode;",
    tests: DRY_RUN_TESTS,
  },
  {
    name: "installations: a part that is left out keeps no bytes",
    file: PARTS,
    from: "if (held_digests.length > held_count) await rows.discard(held_digests.pop()!);",
    to: "if (held_digests.length > held_count) deps.importer.release(held_digests.pop()!);",
    tests: INSTALLATIONS_TESTS,
  },
  {
    name: "installations: a secret without a slot is refused",
    file: BINDINGS,
    from: "  if (unknown === undefined) return;\n",
    to: "  if (unknown !== slots[-1]) return;\n",
    tests: INSTALLATIONS_TESTS,
  },
  {
    name: "installations: a rollout is not moved by a repeated installation",
    file: BINDINGS,
    from: "binding.package_version !== version && findInThisVersion(binding.export_id) === undefined,",
    to: "binding.package_version !== version,",
    tests: INSTALLATIONS_TESTS,
  },
  {
    name: "installations: the store writes the rows of an installation in one transaction",
    file: "packages/store/src/stores/installations.ts",
    from: '      const existing = await backend.write("commitInstallation", {\n',
    to: '      for (const { row, records } of packages) await backend.write("insertPackage", encodePackage(row, records));\n      const existing = await backend.write("commitInstallation", {\n',
    tests: ["packages/store/test/stores/contract-sqlite.test.ts"],
  },
  {
    name: "http: an Idempotency-Key covers the settings of an archive",
    file: "packages/api/src/routes/installations.ts",
    from: "upload_bytes, installBytes, { settings })",
    to: "upload_bytes, installBytes)",
    tests: ["packages/api/test/routes/installations.test.ts"],
  },
];
