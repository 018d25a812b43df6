/**
 * Folders of this machine whose tool files the operator trusts (tools.workspace-trust, tools.hot). Trust is for the
 * files as they were reviewed; a later edit waits until it is trusted too, unless the operator said `watch`: then a
 * save is loaded at once. What is in use is always a package of its own, so an edit that nobody trusts changes nothing.
 * One thing at a time happens to a folder.
 */

import { hash } from "node:crypto";
import {
  BackplaneError,
  type TrustedFolder,
  toBackplaneError,
  type WorkspaceFolder,
} from "@backplane/contract";
import {
  type Caller,
  HOST_ADMIN,
  type WorkspaceFolders,
  type WorkspaceSource,
  type WorkspacesFacade,
} from "@backplane/ports";
import { fileChanges } from "./file-changes.ts";
import { type InUse, type LoadParts, loadFolder } from "./load-folder.ts";

export interface WorkspacesService {
  facade: WorkspacesFacade;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface WorkspaceParts extends LoadParts {
  folders: WorkspaceFolders | undefined;
}

export function createWorkspaces(parts: WorkspaceParts): WorkspacesService {
  const { deps, rows } = parts;
  const { clock, ids, log, store } = deps;
  const trusted = new Map<string, TrustedFolder>();
  const watches = new Map<string, () => void>();
  /** The end of each folder's last change. */
  const turns = new Map<string, Promise<unknown>>();
  let stopping = false;

  const disk = (): WorkspaceFolders => {
    if (parts.folders !== undefined) return parts.folders;
    throw new BackplaneError("workspace.not_found", "this gateway follows no folders of its machine");
  };

  /** After whatever happens to this folder now. */
  function inTurn<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = turns.get(name) ?? Promise.resolve();
    const next = before.catch(() => {}).then(work);
    const done = next.catch(() => {}).then(() => void (turns.get(name) === done && turns.delete(name)));
    turns.set(name, done);
    return next;
  }

  async function keep(folder: TrustedFolder): Promise<void> {
    trusted.set(folder.id, folder);
    await disk().write([...trusted.values()]);
  }

  /** `reviewed`: the files that the operator said yes to; it may have waited since. */
  async function load(folder: TrustedFolder, caller: Caller, reviewed?: string): Promise<TrustedFolder> {
    const { digest, files } = await disk().survey(folder.path, folder.kind);
    if (reviewed !== undefined && reviewed !== digest) throw new BackplaneError("workspace.changed");
    const loaded = await loadFolder(parts, caller, sourceOf(folder, digest), await inUse(folder));
    const loaded_at = new Date(clock.now()).toISOString();
    const next = { ...folder, ...loaded, digest, files, loaded_at };
    await keep(next);
    const errors = Object.values(next.errors);
    if (errors.length > 0)
      log.warn({ path: next.path, errors }, "tool files do not load; their last good ones stay");
    return next;
  }

  async function inUse({ binding_id, org_id, project_id, snapshots }: TrustedFolder): Promise<InUse | null> {
    if (binding_id === "") return null;
    const bound = await store.bindings.get({ org_id, project_id }, binding_id);
    if (bound === null) return null;
    return { ...bound, definitions: await store.definitions.get(org_id, binding_id), snapshots };
  }

  /** Something was saved. */
  async function changed(id: string): Promise<void> {
    const folder = trusted.get(id);
    if (folder === undefined || stopping) return;
    try {
      const { digest } = await disk().survey(folder.path, folder.kind);
      if (digest === folder.digest) return;
      if (folder.watch) await load(folder, operator(folder));
      else
        log.warn(
          { path: folder.path },
          "files of a trusted folder changed; they wait until they are trusted",
        );
    } catch (error) {
      const { code, message } = toBackplaneError(error);
      log.warn(
        { path: folder.path, code, err: error },
        "a trusted folder could not be loaded; what was loaded stays",
      );
      if (folder.watch) await keep({ ...folder, errors: { ...folder.errors, tools: message } });
    }
  }

  function follow({ id, path, kind }: TrustedFolder): void {
    watches.get(id)?.();
    watches.set(
      id,
      disk().watch(path, kind, () => void inTurn(id, () => changed(id)).catch(() => {})),
    );
  }

  async function shown(folder: TrustedFolder): Promise<WorkspaceFolder> {
    const { files, org_id: _org, project_id: _project, snapshots: _snapshots, ...rest } = folder;
    try {
      const now = await disk().survey(folder.path, folder.kind);
      const changes = fileChanges(files, now.files);
      return { ...rest, changes, state: changes.length === 0 ? "loaded" : "changed" };
    } catch {
      return { ...rest, changes: [], state: "missing" };
    }
  }

  function find(caller: Caller, path: string, kind: WorkspaceFolder["kind"]): TrustedFolder | undefined {
    return [...trusted.values()].find(
      (each) => each.path === path && each.kind === kind && isIn(each, caller),
    );
  }

  const facade: WorkspacesFacade = {
    async review(caller, given, kind) {
      requireHostAdmin(caller, "look into folders of the host");
      const path = await disk().resolve(given);
      const { digest, files } = await disk().survey(path, kind);
      const before = find(caller, path, kind);
      const changes = [];
      const surveyed = new Map(files.map((file) => [file.path, file.sha256]));
      for (const change of fileChanges(before?.files ?? [], files)) {
        const text = await disk().text(path, change.path, surveyed.get(change.path));
        changes.push({ ...change, text });
      }
      return {
        path,
        kind,
        digest,
        files,
        changes,
        trusted: before === undefined ? null : await shown(before),
      };
    },
    async trust(caller, wanted) {
      requireHostAdmin(caller, "trust a folder of the host");
      const { kind, watch } = wanted;
      const path = await disk().resolve(wanted.path);
      const { org_id, project_id } = caller.scope;
      return await inTurn(`${org_id}\n${project_id}\n${kind}\n${path}`, async () => {
        const now = new Date(clock.now()).toISOString();
        const before = find(caller, path, kind);
        const folder: TrustedFolder = {
          ...(before ?? newFolder(ids.next("workspace"), path, kind, caller)),
          watch,
          trusted_at: now,
          trusted_by: caller.actor,
        };
        const loaded = await inTurn(folder.id, () => load(folder, caller, wanted.digest));
        follow(loaded);
        return await shown(loaded);
      });
    },
    async list(caller) {
      requireHostAdmin(caller, "see the folders that are trusted");
      const own = [...trusted.values()].filter((each) => isIn(each, caller));
      return await Promise.all(own.map(shown));
    },
    async untrust(caller, id) {
      requireHostAdmin(caller, "change what is trusted");
      const folder = trusted.get(id);
      if (folder === undefined || !isIn(folder, caller)) throw new BackplaneError("workspace.not_found");
      await inTurn(id, async () => {
        watches.get(id)?.();
        watches.delete(id);
        if ((await inUse(folder)) !== null) await parts.bindings.remove(caller, folder.binding_id);
        for (const snapshot of trusted.get(id)?.snapshots ?? []) {
          const row = await store.packages.get(folder.org_id, snapshot);
          if (row !== null) await rows.remove(caller, row);
        }
        trusted.delete(id);
        await disk().write([...trusted.values()]);
      });
    },
  };

  return {
    facade,
    async start() {
      if (parts.folders === undefined) return;
      for (const folder of await disk().read()) {
        trusted.set(folder.id, folder);
        follow(folder);
        // What was saved while nobody looked; the gateway does not wait for it.
        void inTurn(folder.id, () => changed(folder.id)).catch(() => {});
      }
    },
    async stop() {
      stopping = true;
      for (const end of watches.values()) end();
      watches.clear();
      await Promise.all(turns.values());
    },
  };
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
    package_id: kind === "workspace" ? workspacePackage(path, `${org_id}\n${project_id}`) : "",
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

/** One package id a folder and scope, that a person recognises. */
function workspacePackage(path: string, scope: string): string {
  const last = path
    .slice(path.lastIndexOf("/") + 1)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-");
  const name = last.replace(/^-+|-+$/g, "").slice(0, 60) || "folder";
  return `workspace/${name}-${hash("sha256", `${scope}\n${path}`, "hex").slice(0, 6)}`;
}

function sourceOf({ path, kind, package_id }: TrustedFolder, digest: string): WorkspaceSource {
  const whole = kind === "plugin";
  return { kind: "workspace", path, digest, whole, package_id: whole ? null : package_id, keep: null };
}

function isIn(folder: TrustedFolder, { scope }: Caller): boolean {
  return folder.org_id === scope.org_id && folder.project_id === scope.project_id;
}

/** With `watch` the operator has said yes to every later save. */
function operator({ org_id, project_id, trusted_by }: TrustedFolder): Caller {
  return { actor: trusted_by, scope: { org_id, project_id }, role: "owner", scopes: ["admin"], admin: true };
}

/** It is the host's disk, which is beyond any org: only whoever runs the gateway decides. */
function requireHostAdmin(caller: Caller, what: string): void {
  if (caller.actor === HOST_ADMIN && caller.delegation === undefined) return;
  throw new BackplaneError("policy.denied", `only the admin token may ${what}`);
}
