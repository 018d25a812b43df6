/**
 * Folders of this machine that the operator trusts (tools.workspace-trust, tools.hot): the tool files of a workspace,
 * or a whole plugin. Trust covers the files as they were reviewed. A later edit is not loaded until it is trusted too,
 * unless the folder is watched: then a save is loaded immediately. The tools in use always come from a package, so an
 * untrusted edit changes nothing. Changes of one folder run one at a time.
 */

import { hash } from "node:crypto";
import {
  BackplaneError,
  type TrustedFolder,
  toBackplaneError,
  type WorkspaceActivity,
  type WorkspaceChange,
  type WorkspaceFile,
  type WorkspaceFolder,
} from "@backplane/contract";
import {
  type Caller,
  type Operation,
  requireHostAdmin,
  requireNotCancelled,
  unwatchedOperation,
  type FolderAccess,
  type WorkspaceSource,
  type WorkspacesFacade,
} from "@backplane/ports";
import { WorkspaceActivityQueue } from "./activity-queue.ts";
import { installFolder, type LoadDeps, loadFolder, type PackageInUse } from "./load-folder.ts";

export interface WorkspacesService {
  facade: WorkspacesFacade;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface WorkspacesDeps extends LoadDeps {
  folders: FolderAccess | undefined;
}

export function createWorkspaces(all_deps: WorkspacesDeps): WorkspacesService {
  const { deps, rows } = all_deps;
  const { clock, ids, log, store } = deps;
  const trusted = new Map<string, TrustedFolder>();
  const stop_watching = new Map<string, () => void>();
  /** The end of the last queued change, by folder. */
  const last_changes = new Map<string, Promise<unknown>>();
  const activity_queues = new Map<string, Set<WorkspaceActivityQueue>>();
  let stopping = false;

  const now = () => new Date(clock.now()).toISOString();
  const report = (id: string, activity: WorkspaceActivity) => {
    for (const queue of activity_queues.get(id) ?? []) queue.push(activity);
  };

  const requireFolders = (): FolderAccess => {
    if (all_deps.folders !== undefined) return all_deps.folders;
    throw new BackplaneError("workspace.not_found", "This gateway has no access to folders of its machine.");
  };

  /** Runs the work after the changes that are already queued for this folder. */
  function enqueue<T>(name: string, work: () => Promise<T>): Promise<T> {
    const previous = last_changes.get(name) ?? Promise.resolve();
    const next = previous.catch(() => {}).then(work);
    const done = next
      .catch(() => {})
      .then(() => void (last_changes.get(name) === done && last_changes.delete(name)));
    last_changes.set(name, done);
    return next;
  }

  async function save(folder: TrustedFolder): Promise<void> {
    trusted.set(folder.id, folder);
    await requireFolders().writeList([...trusted.values()]);
  }

  /** `reviewed` is the digest that the operator approved; the files may have changed while the load was queued. */
  async function load(
    folder: TrustedFolder,
    caller: Caller,
    operation: Operation,
    reviewed?: string,
  ): Promise<TrustedFolder> {
    const started_at = clock.monotonic();
    operation.report({ step: "read", message: `Reading ${folder.path}` });
    const { digest, files, tool_files } = await requireFolders().survey(folder.path, folder.kind);
    if (reviewed !== undefined && reviewed !== digest) throw new BackplaneError("workspace.changed");
    requireNotCancelled(operation);
    const loaded = tool_files
      ? await loadFolder(all_deps, caller, toSource(folder, digest), await findInUse(folder), operation)
      : await installFolder(all_deps, caller, folder, digest, operation);
    const loaded_at = now();
    const next = { ...folder, ...loaded, digest, files, loaded_at };
    await save(next);
    const { package_id, package_version } = next;
    const duration_ms = Math.round(clock.monotonic() - started_at);
    for (const queue of activity_queues.get(folder.id) ?? []) queue.observe(bindingsOf(next));
    report(folder.id, {
      type: "loaded",
      at: loaded_at,
      package_id,
      package_version,
      duration_ms,
      errors: next.errors,
    });
    const errors = Object.values(next.errors);
    if (errors.length > 0)
      log.warn(
        { path: next.path, errors },
        "parts of a trusted folder failed to load; their last working versions, if any, stay in use",
      );
    return next;
  }

  async function findInUse({
    binding_id,
    org_id,
    project_id,
    snapshots,
  }: TrustedFolder): Promise<PackageInUse | null> {
    if (binding_id === "") return null;
    const bound = await store.bindings.get({ org_id, project_id }, binding_id);
    if (bound === null) return null;
    return { ...bound, definitions: await store.definitions.get(org_id, binding_id), snapshots };
  }

  /** Called when the files of a trusted folder may have changed. */
  async function onFilesChanged(id: string): Promise<void> {
    const folder = trusted.get(id);
    if (folder === undefined || stopping) return;
    try {
      const { digest } = await requireFolders().survey(folder.path, folder.kind);
      if (digest === folder.digest) return;
      if (folder.watch) await load(folder, operatorOf(folder), unwatchedOperation());
      else log.warn({ path: folder.path }, "files of a trusted folder changed; trust them to load them");
    } catch (error) {
      const { code, message } = toBackplaneError(error);
      log.warn(
        { path: folder.path, code, err: error },
        "a trusted folder could not be loaded; its loaded tools stay in use",
      );
      const package_version = folder.package_version === "" ? null : folder.package_version;
      report(id, { type: "failed", at: now(), message, package_version });
      if (folder.watch) await save({ ...folder, errors: { ...folder.errors, tools: message } });
    }
  }

  function watchFolder({ id, path, kind }: TrustedFolder): void {
    stop_watching.get(id)?.();
    stop_watching.set(
      id,
      requireFolders().watch(path, kind, () => void enqueue(id, () => onFilesChanged(id)).catch(() => {})),
    );
  }

  async function viewFolder(folder: TrustedFolder): Promise<WorkspaceFolder> {
    const {
      files,
      org_id: _org,
      project_id: _project,
      snapshots: _snapshots,
      bindings: _bindings,
      ...visible_fields
    } = folder;
    try {
      const current = await requireFolders().survey(folder.path, folder.kind);
      const changes = diffFiles(files, current.files);
      return { ...visible_fields, changes, state: changes.length === 0 ? "loaded" : "changed" };
    } catch {
      return { ...visible_fields, changes: [], state: "missing" };
    }
  }

  function find(caller: Caller, path: string, kind: WorkspaceFolder["kind"]): TrustedFolder | undefined {
    return [...trusted.values()].find(
      (folder) => folder.path === path && folder.kind === kind && isInScope(folder, caller),
    );
  }

  const facade: WorkspacesFacade = {
    async review(caller, requested_path, kind) {
      requireHostAdmin(caller, "read folders on the host");
      const path = await requireFolders().resolve(requested_path);
      const { digest, files } = await requireFolders().survey(path, kind);
      const trusted_folder = find(caller, path, kind);
      const changes = [];
      const surveyed = new Map(files.map((file) => [file.path, file.sha256]));
      for (const change of diffFiles(trusted_folder?.files ?? [], files)) {
        const text = await requireFolders().readText(path, change.path, surveyed.get(change.path));
        changes.push({ ...change, text });
      }
      return {
        path,
        kind,
        digest,
        files,
        changes,
        trusted: trusted_folder === undefined ? null : await viewFolder(trusted_folder),
      };
    },
    async trust(caller, request, operation = unwatchedOperation()) {
      requireHostAdmin(caller, "trust a folder on the host");
      const { kind, watch } = request;
      const path = await requireFolders().resolve(request.path);
      const { org_id, project_id } = caller.scope;
      return await enqueue(`${org_id}\n${project_id}\n${kind}\n${path}`, async () => {
        const trusted_folder = find(caller, path, kind);
        const folder: TrustedFolder = {
          ...(trusted_folder ?? newFolder(ids.next("workspace"), path, kind, caller)),
          watch,
          trusted_at: now(),
          trusted_by: caller.actor,
        };
        const loaded = await enqueue(folder.id, () => load(folder, caller, operation, request.digest));
        watchFolder(loaded);
        return await viewFolder(loaded);
      });
    },
    async list(caller) {
      requireHostAdmin(caller, "list trusted folders");
      const visible = [...trusted.values()].filter((folder) => isInScope(folder, caller));
      return await Promise.all(visible.map(viewFolder));
    },
    async *streamActivity(caller, id, stop) {
      requireHostAdmin(caller, "watch a trusted folder");
      const folder = trusted.get(id);
      if (folder === undefined || !isInScope(folder, caller)) throw new BackplaneError("workspace.not_found");
      const queue = new WorkspaceActivityQueue(deps.runner, now);
      const readers = activity_queues.get(id) ?? new Set();
      activity_queues.set(id, readers.add(queue));
      queue.observe(bindingsOf(folder));
      const { package_id, package_version, errors, loaded_at: at } = folder;
      queue.push({ type: "loaded", at, package_id, package_version, duration_ms: null, errors });
      try {
        yield* queue.items(stop);
      } finally {
        queue.close();
        readers.delete(queue);
        if (readers.size === 0) activity_queues.delete(id);
      }
    },
    async untrust(caller, id) {
      requireHostAdmin(caller, "remove a trusted folder");
      const folder = trusted.get(id);
      if (folder === undefined || !isInScope(folder, caller)) throw new BackplaneError("workspace.not_found");
      await enqueue(id, async () => {
        stop_watching.get(id)?.();
        stop_watching.delete(id);
        for (const binding_id of bindingsOf(trusted.get(id) ?? folder))
          if ((await findInUse({ ...folder, binding_id })) !== null)
            await all_deps.bindings.remove(caller, binding_id);
        for (const snapshot of trusted.get(id)?.snapshots ?? []) {
          const row = await store.packages.get(folder.org_id, snapshot);
          if (row !== null) await rows.remove(caller, row);
        }
        trusted.delete(id);
        await requireFolders().writeList([...trusted.values()]);
      });
    },
  };

  return {
    facade,
    async start() {
      if (all_deps.folders === undefined) return;
      for (const folder of await requireFolders().readList()) {
        trusted.set(folder.id, folder);
        watchFolder(folder);
        // Handles files that were saved while the gateway was down, without delaying the start.
        void enqueue(folder.id, () => onFilesChanged(folder.id)).catch(() => {});
      }
    },
    async stop() {
      stopping = true;
      for (const stopWatching of stop_watching.values()) stopWatching();
      stop_watching.clear();
      await Promise.all(last_changes.values());
    },
  };
}

/** A folder of tool files has one binding. */
function bindingsOf({ binding_id, bindings }: TrustedFolder): string[] {
  return bindings ?? (binding_id === "" ? [] : [binding_id]);
}

function newFolder(
  id: string,
  path: string,
  kind: WorkspaceFolder["kind"],
  { scope, actor }: Caller,
): TrustedFolder {
  const { org_id, project_id } = scope;
  const never = new Date(0).toISOString();
  return {
    id,
    path,
    kind,
    watch: false,
    org_id,
    project_id,
    package_id: kind === "workspace" ? buildPackageId(path, `${org_id}\n${project_id}`) : "",
    package_version: "",
    binding_id: "",
    digest: `sha256:${"0".repeat(64)}`,
    files: [],
    errors: {},
    snapshots: [],
    trusted_at: never,
    trusted_by: actor,
    loaded_at: never,
  };
}

/** Returns one package id per folder and scope, with a name that a person recognizes. */
function buildPackageId(path: string, scope: string): string {
  const last = path
    .slice(path.lastIndexOf("/") + 1)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-");
  const name = last.replace(/^-+|-+$/g, "").slice(0, 60) || "folder";
  return `workspace/${name}-${hash("sha256", `${scope}\n${path}`, "hex").slice(0, 6)}`;
}

function toSource({ path, kind, package_id }: TrustedFolder, digest: string): WorkspaceSource {
  const is_plugin = kind === "plugin";
  return {
    kind: "workspace",
    path,
    digest,
    whole: is_plugin,
    package_id: is_plugin ? null : package_id,
    keep: null,
  };
}

function isInScope(folder: TrustedFolder, { scope }: Caller): boolean {
  return folder.org_id === scope.org_id && folder.project_id === scope.project_id;
}

/** An operator who watches a folder has approved every later save. */
function operatorOf({ org_id, project_id, trusted_by }: TrustedFolder): Caller {
  return { actor: trusted_by, scope: { org_id, project_id }, role: "owner", scopes: ["admin"], admin: true };
}

/** Lists the differences between the trusted files and the current ones. */
function diffFiles(trusted: readonly WorkspaceFile[], current: readonly WorkspaceFile[]): WorkspaceChange[] {
  const trusted_files = new Map(trusted.map((file) => [file.path, file]));
  const changes: WorkspaceChange[] = [];
  for (const { path, size, sha256 } of current) {
    const trusted_file = trusted_files.get(path);
    trusted_files.delete(path);
    if (trusted_file === undefined) changes.push({ path, size, change: "added" });
    else if (trusted_file.sha256 !== sha256) changes.push({ path, size, change: "changed" });
  }
  for (const path of trusted_files.keys()) changes.push({ path, size: 0, change: "removed" });
  return changes.sort((a, b) => (a.path < b.path ? -1 : 1));
}
