/**
 * Asks the running thing behind a described binding what its tools are, and keeps the answer: tools are there at once
 * after a restart, and a changed definition is noticed. A question that fails leaves what was known, with the error
 * beside it.
 */

import {
  BackplaneError,
  type Binding,
  codeOf,
  type Definitions,
  isDescribed,
  ownFix,
  type ToolExport,
  toBackplaneError,
} from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import {
  auditOf,
  type BoundPackage,
  type Caller,
  type Changes,
  type DefinitionsFacade,
  type Description,
  type Facts,
  type KernelDeps,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import { listHiddenText } from "../exports/sanitize-text.ts";
import type { Policies } from "../policy/policies.ts";
import type { SignInTokens } from "../secrets/sign-in-tokens.ts";
import { acceptTools, mergeDescription } from "./compare.ts";
import { createProcessOrder, sendProcessRequest } from "./process-order.ts";

export interface DefinitionsService {
  facade: DefinitionsFacade;
  /**
   * After a binding was created or changed; never throws. Null: the package lists its own exports.
   */
  describe(bound: BoundPackage): Promise<Definitions | null>;
  /** While `work` moves the binding to `package_digest`, `describe` uses this answer and does not ask the tools again. */
  withDescription<T>(
    binding_id: string,
    package_digest: string,
    description: Description,
    work: () => Promise<T>,
  ): Promise<T>;
  /** What another package would offer under this binding; nothing is stored. */
  preview(bound: BoundPackage): Promise<Description>;
}

const DESCRIBE_MS = 30_000;
const RACES = 20;
/** All schemas of one description: they are tried where everybody's are. */
const VET_MS = 30_000;

export interface DefinitionsParts {
  deps: KernelDeps;
  policies: Pick<Policies, "of">;
  tokens: SignInTokens;
  changes: Pick<Changes, "emit">;
  /** Throws when the package may not be asked yet, because something that it needs is not loaded. */
  gate: (bound: BoundPackage) => Promise<void>;
}

export function createDefinitions({
  deps,
  policies,
  tokens,
  changes,
  gate,
}: DefinitionsParts): DefinitionsService {
  const { store, clock } = deps;
  const prepared = new Map<string, Description>();
  /** One question at a time per binding: a second one waits for the answer to the first. */
  const asking = new Map<string, Promise<Definitions>>();

  const preview = async ({ binding, package: pack }: BoundPackage): Promise<Description> =>
    await vetted(deps, await question(deps, policies, tokens, { binding, package: pack }));

  async function ask(bound: BoundPackage, known?: Description): Promise<Definitions> {
    let description: Description;
    try {
      await gate(bound);
      description = known ?? (await preview(bound));
    } catch (error) {
      return await failed(bound, error);
    }
    const now = new Date(clock.now()).toISOString();
    return await write(bound, (before) => mergeDescription(before, bound, description, now));
  }

  async function failed(bound: BoundPackage, error: unknown): Promise<Definitions> {
    const why = whyNot(error);
    const { code } = why;
    const { binding, package: pack } = bound;
    deps.log.warn(
      { binding_id: binding.binding_id, code, err: error },
      "a binding did not describe its tools",
    );
    const now = new Date(clock.now()).toISOString();
    const nothing: Description = { exports: [], schemas: {}, warnings: [], info: {} };
    return await write(bound, (before) => {
      const same = before !== null && before.package_digest === pack.digest;
      // What may not be loaded offers nothing; what was seen of it is kept.
      if (same && code === "plugin.dependency") {
        return { ...mergeDescription(before, bound, nothing, now), error: why };
      }
      // The first answer is still to come, so nothing has been seen.
      const base = same ? before : { ...mergeDescription(null, bound, nothing, now), revision: 0 };
      return { ...base, error: why, revision: (before?.revision ?? 0) + 1 };
    });
  }

  async function write(
    bound: BoundPackage,
    make: (before: Definitions | null) => Definitions,
  ): Promise<Definitions> {
    const { binding } = bound;
    const { org_id } = binding.scope;
    for (let race = 0; race < RACES; race++) {
      const before = await store.definitions.get(org_id, binding.binding_id);
      const row = make(before);
      if (await store.definitions.put(org_id, row, facts(binding, before, row))) {
        if (before?.digest !== row.digest) changes.emit("definitions.changed", { org_id });
        changes.emit("definitions.written", { bound, definitions: row });
        return row;
      }
      if ((await store.bindings.get(binding.scope, binding.binding_id)) === null) break;
    }
    throw new BackplaneError("binding.not_found");
  }

  function facts(binding: Binding, before: Definitions | null, row: Definitions): Facts {
    if (before?.digest === row.digest) return {};
    const { binding_id, package_id, package_version, scope, status, generation } = binding;
    return {
      events: [
        {
          id: deps.ids.next("event"),
          type: "binding.changed",
          scope,
          occurred_at: clock.now(),
          subject: { kind: "binding", id: binding_id },
          summary: {
            package_id,
            package_version,
            export_id: binding.export_id,
            status,
            generation,
            action: "binding.describe",
            tools: row.exports.length,
            quarantined: row.quarantined.length,
          },
        },
      ],
    };
  }

  function describeNow(bound: BoundPackage, known?: Description): Promise<Definitions> {
    const id = bound.binding.binding_id;
    const running = asking.get(id);
    const next = (running === undefined ? ask(bound, known) : running.then(() => ask(bound, known))).finally(
      () => {
        if (asking.get(id) === next) asking.delete(id);
      },
    );
    asking.set(id, next);
    return next;
  }

  async function described(caller: Caller, id: string): Promise<BoundPackage> {
    const bound = await store.bindings.get(caller.scope, id);
    if (bound === null) throw new BackplaneError("binding.not_found");
    if (isDescribed(bound.package.manifest.runtime.protocol)) return bound;
    throw new BackplaneError("request.invalid", "this binding's package lists its own exports", {
      fix: "Read them from the package: backplane plugin info PACKAGE",
    });
  }

  /** The tools of an org's binding are those of all its projects. */
  async function changeable(caller: Caller, id: string, what: string): Promise<BoundPackage> {
    requireOperator(caller, what);
    const bound = await described(caller, id);
    if (bound.binding.scope.project_id === null) requireWholeOrg(caller, what);
    return bound;
  }

  return {
    facade: {
      async get(caller, id) {
        const { binding } = await described(caller, id);
        return await store.definitions.get(binding.scope.org_id, id);
      },
      async refresh(caller, id) {
        return await describeNow(await changeable(caller, id, "describe bindings"));
      },
      async accept(caller, id, export_id, revision) {
        const bound = await changeable(caller, id, "accept changed tools");
        const { org_id } = bound.binding.scope;
        const before = await store.definitions.get(org_id, id);
        if (revision !== undefined && before !== null && before.revision !== revision) throw changedAgain();
        const waiting = before?.quarantined.filter((one) => export_id === "*" || one.export.id === export_id);
        if (before === null || waiting === undefined || waiting.length === 0) {
          throw new BackplaneError("export.not_found", `nothing of ${id} waits for this`, {
            fix: `See what changed: backplane binding tools ${id}`,
          });
        }
        const row = acceptTools(before, export_id);
        const tools = waiting.map((one) => one.export.id);
        const audit = auditOf(deps, caller, "definitions.accept", id, { tools });
        if (!(await store.definitions.put(org_id, row, { ...facts(bound.binding, before, row), audit }))) {
          throw changedAgain();
        }
        changes.emit("definitions.changed", { org_id });
        return row;
      },
    },
    preview,
    async withDescription(binding_id, package_digest, description, work) {
      const name = `${binding_id}\n${package_digest}`;
      prepared.set(name, description);
      try {
        return await work();
      } finally {
        prepared.delete(name);
      }
    },
    async describe(bound) {
      const { protocol } = bound.package.manifest.runtime;
      if (!isDescribed(protocol) || bound.binding.status !== "active") return null;
      try {
        return await describeNow(bound, prepared.get(`${bound.binding.binding_id}\n${bound.package.digest}`));
      } catch (error) {
        // Gone again, or a store that does not answer: whoever made the change hears of that elsewhere.
        if (codeOf(error) !== "binding.not_found")
          deps.log.warn({ err: error }, "definitions were not stored");
        return null;
      }
    },
  };
}

/** With the remedy of this very case, where there is one; that of the code speaks of calls. */
function whyNot(error: unknown): NonNullable<Definitions["error"]> {
  const known = toBackplaneError(error);
  const { code, message } = known;
  const fix = ownFix(known);
  return { code, message, ...(fix === undefined ? {} : { fix }) };
}

function changedAgain(): BackplaneError {
  return new BackplaneError(
    "request.precondition",
    "the tools were described again meanwhile; look once more",
  );
}

/** A schema that cannot be used makes its own tool unusable, and no other. */
async function vetted(
  { schemas, clock }: Pick<KernelDeps, "schemas" | "clock">,
  description: Description,
): Promise<Description> {
  const exports: Description["exports"] = [];
  const warnings = [...description.warnings];
  const until = clock.monotonic() + VET_MS;
  for (const given of description.exports) {
    // The words crossed a pipe: rules and risks go by them, so they have to be words that those know.
    const read = ToolExportSchema.safeParse(given);
    if (!read.success) {
      warnings.push(unreadable(given, read.error.issues[0]));
      continue;
    }
    const item = read.data;
    for (const line of listHiddenText(item, description.schemas))
      warnings.push(`Hidden characters in the words of ${item.id} are not shown: ${line}`.slice(0, 500));
    const late = clock.monotonic() > until;
    const problem = late ? TOO_LATE : await schemaProblem(schemas, item.tool, description.schemas);
    if (problem === null) exports.push(item);
    else {
      const { input_schema: _input, output_schema: _output, ...tool } = item.tool;
      exports.push({ ...item, tool: { ...tool, load_error: tool.load_error ?? problem } });
    }
  }
  return { ...description, exports, warnings };
}

const TOO_LATE = `the schemas of the tools before it took longer than ${VET_MS} ms to try; simplify them`;

function unreadable({ id }: ToolExport, issue: { path: PropertyKey[]; message: string } | undefined): string {
  const name = typeof id === "string" ? JSON.stringify(id.slice(0, 80)) : "without a name";
  return `The tool ${name} is left out: ${issue?.path.join(".")}: ${issue?.message}`.slice(0, 500);
}

async function schemaProblem(
  schemas: KernelDeps["schemas"],
  { input_schema, output_schema }: ToolExport["tool"],
  described: Description["schemas"],
): Promise<string | null> {
  for (const [what, path] of Object.entries({ input_schema, output_schema })) {
    if (path === undefined) continue;
    try {
      await schemas.compile(path, described[path]);
    } catch (error) {
      return `${what}: ${toBackplaneError(error).message}`.slice(0, 4_000);
    }
  }
  return null;
}

async function question(
  deps: KernelDeps,
  policies: Pick<Policies, "of">,
  tokens: SignInTokens,
  bound: BoundPackage,
): Promise<Description> {
  const { protocol } = bound.package.manifest.runtime;
  const { describe } = deps.runner;
  if (describe === undefined) {
    throw new BackplaneError("package.invalid", `this gateway does not run ${protocol} packages`);
  }
  const order = await createProcessOrder(deps, policies, bound, bound.binding.scope);
  return await sendProcessRequest(tokens, bound, order, (given) =>
    describe({ ...given, timeout_ms: DESCRIBE_MS }),
  );
}
