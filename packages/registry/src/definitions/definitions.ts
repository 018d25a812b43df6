/**
 * Asks the process behind a binding for its tools and stores the answer. The stored definitions make tools available
 * immediately after a restart and reveal changed definitions. If a request fails, the error is recorded. The stored
 * definitions of the same package are then kept, unless a plugin that it depends on is not loaded.
 */

import {
  BackplaneError,
  type Binding,
  codeOf,
  type Definitions,
  isSelfDescribing,
  type ManifestToolExport,
  type Runtime,
  specificFix,
  toBackplaneError,
} from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import {
  type BoundPackage,
  buildAudit,
  type Caller,
  type ChangeRecords,
  type Changes,
  type DefinitionsFacade,
  type Description,
  type KernelDeps,
  type Operation,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import { listHiddenText } from "../exports/sanitize-export.ts";
import type { Policies } from "../policy/policies.ts";
import type { SignInTokens } from "../secrets/sign-in-tokens.ts";
import { acceptTools, mergeDescription } from "./merge-description.ts";
import { createProcessRequest, sendProcessRequest } from "./process-request.ts";

export interface DefinitionsService {
  facade: DefinitionsFacade;
  /**
   * Describes a binding that was created or changed. Never throws. Resolves to null when the package lists its own
   * exports, the binding is not active, or the definitions could not be stored.
   */
  describe(bound: BoundPackage, operation?: Operation): Promise<Definitions | null>;
  /** While `work` moves the binding to `package_digest`, `describe` uses this description and requests no other. */
  withDescription<T>(
    binding_id: string,
    package_digest: string,
    description: Description,
    work: () => Promise<T>,
  ): Promise<T>;
  /** Whether `withDescription` holds a description of this package. The package has then been started already. */
  hasDescription(binding_id: string, package_digest: string): boolean;
  /** Returns what another package would offer under this binding, without storing it. */
  preview(bound: BoundPackage): Promise<Description>;
}

const DESCRIBE_MS = 30_000;
const MAX_ATTEMPTS = 20;
/** The limit for all schemas of one description, because all tenants share the compiler. */
const CHECK_MS = 30_000;

export interface DefinitionsDeps {
  deps: KernelDeps;
  policies: Pick<Policies, "getEffective">;
  tokens: SignInTokens;
  changes: Pick<Changes, "emit">;
  /** Throws when the binding may not be described yet, because a plugin that it depends on is not loaded. */
  requireReady: (bound: BoundPackage) => Promise<void>;
}

export function createDefinitions({
  deps,
  policies,
  tokens,
  changes,
  requireReady,
}: DefinitionsDeps): DefinitionsService {
  const { store, clock } = deps;
  const known_descriptions = new Map<string, Description>();
  /** One request at a time per binding; a second one waits for the first. */
  const in_flight = new Map<string, Promise<Definitions>>();

  const preview = async (
    { binding, package: pack }: BoundPackage,
    operation?: Operation,
  ): Promise<Description> =>
    await describeProcess(deps, policies, tokens, { binding, package: pack }, operation);

  async function describeAndStore(
    bound: BoundPackage,
    known: Description | undefined,
    operation: Operation | undefined,
  ): Promise<Definitions> {
    let description: Description;
    try {
      await requireReady(bound);
      description = known ?? (await preview(bound, operation));
    } catch (error) {
      return await storeFailure(bound, error);
    }
    const now = new Date(clock.now()).toISOString();
    const warnings = [...listIsolationWarnings(bound.package.manifest.runtime), ...description.warnings];
    return await write(bound, (before) => mergeDescription(before, bound, { ...description, warnings }, now));
  }

  async function storeFailure(bound: BoundPackage, error: unknown): Promise<Definitions> {
    const failure = errorRecordOf(error);
    const { code } = failure;
    const { binding, package: pack } = bound;
    deps.log.warn(
      { binding_id: binding.binding_id, code, err: error },
      "the tools of a binding could not be described",
    );
    const now = new Date(clock.now()).toISOString();
    const warnings = listIsolationWarnings(pack.manifest.runtime);
    const empty_description: Description = { exports: [], schemas: {}, warnings, info: {} };
    return await write(bound, (before) => {
      const is_same_package = before !== null && before.package_digest === pack.digest;
      // A plugin with a missing dependency offers nothing. The digests of its tools are kept.
      if (is_same_package && code === "plugin.dependency") {
        return { ...mergeDescription(before, bound, empty_description, now), error: failure };
      }
      // There has been no description of this package yet, so no tool has been seen.
      const base = is_same_package
        ? before
        : { ...mergeDescription(null, bound, empty_description, now), revision: 0 };
      return { ...base, error: failure, revision: (before?.revision ?? 0) + 1 };
    });
  }

  async function write(
    bound: BoundPackage,
    build: (before: Definitions | null) => Definitions,
  ): Promise<Definitions> {
    const { binding } = bound;
    const { org_id } = binding.scope;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = await store.definitions.get(org_id, binding.binding_id);
      const row = build(before);
      if (await store.definitions.put(org_id, row, buildChangeRecords(binding, before, row))) {
        if (before?.digest !== row.digest) changes.emit("definitions.changed", { org_id });
        changes.emit("definitions.written", { bound, definitions: row });
        return row;
      }
      if ((await store.bindings.get(binding.scope, binding.binding_id)) === null) break;
    }
    throw new BackplaneError("binding.not_found");
  }

  function buildChangeRecords(binding: Binding, before: Definitions | null, row: Definitions): ChangeRecords {
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

  function enqueueDescription(
    bound: BoundPackage,
    operation?: Operation,
    known?: Description,
  ): Promise<Definitions> {
    const id = bound.binding.binding_id;
    const running = in_flight.get(id);
    const next = (
      running === undefined
        ? describeAndStore(bound, known, operation)
        : running.then(() => describeAndStore(bound, known, operation))
    ).finally(() => {
      if (in_flight.get(id) === next) in_flight.delete(id);
    });
    in_flight.set(id, next);
    return next;
  }

  async function getDescribed(caller: Caller, id: string): Promise<BoundPackage> {
    const bound = await store.bindings.get(caller.scope, id);
    if (bound === null) throw new BackplaneError("binding.not_found");
    if (isSelfDescribing(bound.package.manifest.runtime.protocol)) return bound;
    throw new BackplaneError(
      "request.invalid",
      `The package of ${id} lists its exports in its manifest, so no definitions are stored for its tools.`,
      {
        fix: "Read them from the package: backplane plugin info PACKAGE",
      },
    );
  }

  /** All projects of the org use the tools of an org-wide binding, so a project alone may not change them. */
  async function getChangeable(caller: Caller, id: string, action: string): Promise<BoundPackage> {
    requireOperator(caller, action);
    const bound = await getDescribed(caller, id);
    if (bound.binding.scope.project_id === null) requireWholeOrg(caller, action);
    return bound;
  }

  return {
    facade: {
      async get(caller, id) {
        const { binding } = await getDescribed(caller, id);
        return await store.definitions.get(binding.scope.org_id, id);
      },
      async refresh(caller, id, operation) {
        return await enqueueDescription(await getChangeable(caller, id, "describe bindings"), operation);
      },
      async accept(caller, id, export_id, revision) {
        const bound = await getChangeable(caller, id, "accept changed tools");
        const { org_id } = bound.binding.scope;
        const before = await store.definitions.get(org_id, id);
        if (revision !== undefined && before !== null && before.revision !== revision)
          throw definitionsChangedError(id);
        const quarantined = before?.quarantined.filter(
          (change) => export_id === "*" || change.export.id === export_id,
        );
        if (before === null || quarantined === undefined || quarantined.length === 0) {
          throw new BackplaneError("export.not_found", `${id} has no quarantined tool ${export_id}.`, {
            fix: `See what changed: backplane binding tools ${id}`,
          });
        }
        const row = acceptTools(before, export_id);
        const tools = quarantined.map((change) => change.export.id);
        const audit = buildAudit(deps, caller, "definitions.accept", id, { tools });
        if (
          !(await store.definitions.put(org_id, row, {
            ...buildChangeRecords(bound.binding, before, row),
            audit,
          }))
        ) {
          throw definitionsChangedError(id);
        }
        changes.emit("definitions.changed", { org_id });
        return row;
      },
    },
    preview: (bound) => preview(bound),
    hasDescription: (binding_id, package_digest) =>
      known_descriptions.has(`${binding_id}\n${package_digest}`),
    async withDescription(binding_id, package_digest, description, work) {
      const key = `${binding_id}\n${package_digest}`;
      known_descriptions.set(key, description);
      try {
        return await work();
      } finally {
        known_descriptions.delete(key);
      }
    },
    async describe(bound, operation) {
      const { protocol } = bound.package.manifest.runtime;
      if (!isSelfDescribing(protocol) || bound.binding.status !== "active") return null;
      try {
        return await enqueueDescription(
          bound,
          operation,
          known_descriptions.get(`${bound.binding.binding_id}\n${bound.package.digest}`),
        );
      } catch (error) {
        // Either the binding has been removed, or the store is unavailable, which the caller learns from its own
        // request.
        if (codeOf(error) !== "binding.not_found")
          deps.log.warn({ err: error }, "definitions could not be stored");
        return null;
      }
    },
  };
}

/**
 * Warns that an instrument plugin runs in a different mode than its manifest declares. Code for the JVM cannot run
 * inside the gateway, so a jar always has its own process.
 */
function listIsolationWarnings({ instrument, protocol }: Runtime): string[] {
  if (instrument === undefined || instrument.isolation === "External" || protocol !== "hefty.jsonrpc")
    return [];
  return [
    `${instrument.plugin_id} declares isolationMode ${instrument.isolation} and runs as External, in its own process, because it needs a JVM; requestCognition and requestEmbedding are not available to it.`,
  ];
}

/** Keeps the specific fix of this error, if it has one. The generic fix of the code is about calls. */
function errorRecordOf(error: unknown): NonNullable<Definitions["error"]> {
  const known = toBackplaneError(error);
  const { code, message } = known;
  const fix = specificFix(known);
  return { code, message, ...(fix === undefined ? {} : { fix }) };
}

function definitionsChangedError(binding_id: string): BackplaneError {
  return new BackplaneError(
    "request.precondition",
    "The tools were described again in the meantime; read them again before you accept.",
    { fix: `Read them again: backplane binding tools ${binding_id}` },
  );
}

/** Checks a description from another process. A schema that cannot be compiled makes only its own tool unusable. */
async function checkDescription(
  { schemas, clock }: Pick<KernelDeps, "schemas" | "clock">,
  description: Description,
): Promise<Description> {
  const exports: Description["exports"] = [];
  const warnings = [...description.warnings];
  const deadline = clock.monotonic() + CHECK_MS;
  for (const described of description.exports) {
    // Policy rules and risks depend on these fields, and they come from another process.
    const parsed = ToolExportSchema.safeParse(described);
    if (!parsed.success) {
      warnings.push(describeUnreadableTool(described, parsed.error.issues[0]));
      continue;
    }
    const item = parsed.data;
    for (const line of listHiddenText(item, description.schemas))
      warnings.push(`Hidden characters in ${item.id} are removed: ${line}`.slice(0, 500));
    const timed_out = clock.monotonic() > deadline;
    const problem = timed_out
      ? OUT_OF_TIME
      : await findSchemaProblem(schemas, item.tool, description.schemas);
    if (problem === null) exports.push(item);
    else {
      const { input_schema: _input, output_schema: _output, ...tool } = item.tool;
      exports.push({ ...item, tool: { ...tool, load_error: tool.load_error ?? problem } });
    }
  }
  return { ...description, exports, warnings };
}

const OUT_OF_TIME = `compiling the schemas of the preceding tools took longer than ${CHECK_MS} ms; simplify them`;

function describeUnreadableTool(
  { id }: ManifestToolExport,
  issue: { path: PropertyKey[]; message: string } | undefined,
): string {
  const name = typeof id === "string" ? JSON.stringify(id.slice(0, 80)) : "without a name";
  return `The tool ${name} is left out: ${issue?.path.join(".")}: ${issue?.message}`.slice(0, 500);
}

async function findSchemaProblem(
  schemas: KernelDeps["schemas"],
  { input_schema, output_schema }: ManifestToolExport["tool"],
  described: Description["schemas"],
): Promise<string | null> {
  for (const [label, path] of Object.entries({ input_schema, output_schema })) {
    if (path === undefined) continue;
    try {
      await schemas.compile(path, described[path]);
    } catch (error) {
      return `${label}: ${toBackplaneError(error).message}`.slice(0, 4_000);
    }
  }
  return null;
}

/** Starts the process of the binding and checks its description of its tools. Nothing is stored. */
export async function describeProcess(
  deps: KernelDeps,
  policies: Pick<Policies, "getEffective">,
  tokens: Pick<SignInTokens, "sendWithSecrets">,
  bound: BoundPackage,
  operation: Operation | undefined,
): Promise<Description> {
  const { protocol } = bound.package.manifest.runtime;
  const { describe } = deps.runner;
  if (describe === undefined) {
    throw new BackplaneError("package.invalid", `This gateway does not run ${protocol} packages.`);
  }
  const request = await createProcessRequest(deps, policies, bound, bound.binding.scope);
  const description = await sendProcessRequest(tokens, bound, request, (prepared) =>
    describe({ ...prepared, timeout_ms: DESCRIBE_MS }, operation),
  );
  return await checkDescription(deps, description);
}
