/**
 * Operations on installations, examples, the marketplace, packages, bindings and their sign-ins, instruments, workspaces
 * and exports.
 */
import type {
  AgentPluginInstalled,
  Binding,
  BindingCreate,
  BindingPatch,
  BindingRollback,
  BindingUpgrade,
  ChangedBinding,
  Definitions,
  DiscoveredExport,
  ExportKind,
  Installation,
  InstallationRequest,
  InstallationSettings,
  InstrumentHealthReport,
  MarketplaceCard,
  MarketplaceList,
  OutdatedPackage,
  Package,
  ReplayReport,
  ReplayRequest,
  ServerSearch,
  SignIn,
  SignInBegin,
  SignInStarted,
  SourceInspection,
  ValidationReport,
  WaitingUpgrade,
  WorkspaceActivity,
  WorkspaceFolder,
  WorkspaceReview,
  WorkspaceTrust,
} from "@backplane/contract";
import { type FollowOptions, follow } from "../transport/follow.ts";
import type { Http } from "../transport/http.ts";
import {
  type CallOptions,
  createRequests,
  idempotencyHeader,
  ifMatchHeader,
  pathSegment,
} from "../transport/requests.ts";
import type { ListOf, PageOptions, PluginExample } from "./types.ts";

type Upload = Blob | Uint8Array<ArrayBuffer> | ReadableStream | AsyncIterable<Uint8Array>;

const LIST_PATHS: Record<ExportKind, string> = {
  tool: "/v1/plugin-tools",
  hook: "/v1/plugin-hooks",
  compactor: "/v1/plugin-compactors",
  harness: "/v1/plugin-harnesses",
};

export function createPluginClient(http: Http) {
  const { get, post, postWithProgress, remove } = createRequests(http);

  return {
    /** Installs packages from any source with their bindings, all in one transaction. */
    installations: {
      /** Describes the source. Changes nothing. */
      inspect: (source: InstallationRequest["source"], call?: CallOptions) =>
        postWithProgress<SourceInspection>("/v1/plugin-installations:inspect", { source }, call),
      inspectArchive: (
        bytes: Upload,
        call: CallOptions = {},
        from: { name?: string; born_at?: string } = {},
      ) =>
        http.json<SourceInspection>({
          method: "POST",
          path: "/v1/plugin-installations:inspect",
          query: from,
          upload: bytes,
          signal: call.signal,
          progress: true,
        }),
      install: (request: InstallationRequest, call?: CallOptions) =>
        postWithProgress<Installation>("/v1/plugin-installations", request, call),
      /** An archive of any format. */
      installArchive: (
        bytes: Upload,
        settings: InstallationSettings = {},
        call: CallOptions = {},
        /** Name and creation time of the packed folder, which the archive does not contain. */
        from: { name?: string; born_at?: string } = {},
      ) =>
        http.json<Installation>({
          method: "POST",
          path: "/v1/plugin-installations",
          query: from,
          upload: bytes,
          headers: { "installation-settings": toAsciiJson(settings), ...idempotencyHeader(call) },
          signal: call.signal,
          progress: true,
        }),
    },
    examples: {
      /** The example plugins that come with Backplane; admin token only. */
      list: async () => (await get<{ items: PluginExample[] }>("/v1/plugin-examples")).items,
    },
    /** Curated entries, independent of what is installed. */
    marketplace: {
      list: (search?: string) => get<MarketplaceList>("/v1/marketplace", { search }),
      get: (id: string) => get<MarketplaceCard>(`/v1/marketplace/${pathSegment(id)}`),
      /** `oci` is the artifact of the card that was approved; another one is refused. */
      install: (id: string, settings: InstallationSettings & { oci?: string }, call?: CallOptions) =>
        postWithProgress<Installation>(`/v1/marketplace/${pathSegment(id)}:install`, settings, call),
      /** Servers of a public registry, which have not been reviewed. */
      searchServers: (search: string) => get<ServerSearch>("/v1/marketplace-servers", { search }),
    },
    packages: {
      installArchive: (
        bytes: Upload,
        call: CallOptions = {},
        /** Name and creation time of the packed folder, which the archive does not contain. */
        from: { name?: string; born_at?: string } = {},
      ) =>
        http.json<Package>({
          method: "POST",
          path: "/v1/plugin-packages",
          query: from,
          upload: bytes,
          headers: idempotencyHeader(call),
          signal: call.signal,
          progress: true,
        }),
      /** A folder on the host; admin token only. */
      installFolder: (folder: string, call?: CallOptions) =>
        postWithProgress<Package>("/v1/plugin-packages", { source: { folder } }, call),
      /** The archive of an Agent Plugins folder. Returns several packages, each with the body that binds it. */
      installAgentPlugin: (bytes: Upload, { strict }: { strict: boolean }, call: CallOptions = {}) =>
        http.json<AgentPluginInstalled>({
          method: "POST",
          path: "/v1/agent-plugins",
          query: { strict: strict ? 1 : 0 },
          upload: bytes,
          headers: idempotencyHeader(call),
          signal: call.signal,
          progress: true,
        }),
      /** An MCP server from the npm registry, with its whole dependency tree. */
      installNpm: (npm: string, secret_slots: readonly string[] = [], call?: CallOptions) =>
        postWithProgress<Package>("/v1/plugin-packages", { source: { npm, secret_slots } }, call),
      list: (page: PageOptions = {}) => get<ListOf<Package>>("/v1/plugin-packages", { ...page }),
      get: (id: string) => get<Package>(`/v1/plugin-packages/${pathSegment(id)}`),
      remove: (id: string) => remove(`/v1/plugin-packages/${pathSegment(id)}`),
      /** Looks for newer versions, including at the sources of the packages. */
      outdated: async () =>
        (
          await http.json<{ items: OutdatedPackage[] }>({
            method: "GET",
            path: "/v1/plugin-packages:outdated",
            progress: true,
          })
        ).items,
      /** Runs recorded read-only calls against this version and the one in use, and compares the results. */
      replay: (id: string, request: Partial<ReplayRequest> = {}, call?: CallOptions) =>
        postWithProgress<ReplayReport>(`/v1/plugin-packages/${pathSegment(id)}:replay`, request, call),
    },
    bindings: {
      create: (body: BindingCreate, call?: CallOptions) =>
        postWithProgress<Binding>("/v1/plugin-bindings", body, call),
      list: (query: PageOptions & { kind?: ExportKind; package_id?: string } = {}) =>
        get<ListOf<Binding>>("/v1/plugin-bindings", { ...query }),
      get: (id: string) => get<Binding>(`/v1/plugin-bindings/${pathSegment(id)}`),
      /** With `generation`, fails with request.precondition if the binding has changed since. */
      patch: (id: string, body: BindingPatch, condition: { generation?: number } = {}) =>
        http.json<ChangedBinding>({
          method: "PATCH",
          path: `/v1/plugin-bindings/${pathSegment(id)}`,
          json: body,
          headers: ifMatchHeader(condition.generation),
          progress: true,
        }),
      /** The upgrades that await a person's decision. */
      waitingUpgrades: async () =>
        (await get<{ items: WaitingUpgrade[] }>("/v1/plugin-bindings:waiting-upgrades")).items,
      /** Upgrades all bindings of a package in one scope, or none. */
      upgrade: async (body: BindingUpgrade) =>
        (await postWithProgress<{ items: Binding[] }>("/v1/plugin-bindings:upgrade", body)).items,
      /** Undoes the upgrade of a package in one scope, or fails without a change. */
      rollbackPackage: async (body: BindingRollback) =>
        (await postWithProgress<{ items: Binding[] }>("/v1/plugin-bindings:rollback", body)).items,
      /** Rolls back to the previous version. */
      rollback: (id: string, condition: { generation?: number } = {}) =>
        http.json<Binding>({
          method: "POST",
          path: `/v1/plugin-bindings/${pathSegment(id)}:rollback`,
          headers: ifMatchHeader(condition.generation),
          progress: true,
        }),
      validate: (id: string) =>
        post<ValidationReport>(`/v1/plugin-bindings/${pathSegment(id)}:validate`, undefined),
      remove: (id: string) => remove(`/v1/plugin-bindings/${pathSegment(id)}`),
      /** The tools as the server has described them. */
      definitions: (id: string) => get<Definitions>(`/v1/plugin-bindings/${pathSegment(id)}/definitions`),
      /** Requests the list of tools from the server again. */
      describe: (id: string) =>
        postWithProgress<Definitions>(`/v1/plugin-bindings/${pathSegment(id)}:describe`, undefined),
      /** Whether the gateway is signed in to the server of the binding. */
      signIn: (id: string) => get<SignIn>(`/v1/plugin-bindings/${pathSegment(id)}/sign-in`),
      /**
       * Starts a login or, with client credentials, signs in immediately. Only admins may use `login`, `completeLogin` and
       * `logout`.
       */
      login: (id: string, options: SignInBegin = {}) =>
        post<SignInStarted>(`/v1/plugin-bindings/${pathSegment(id)}:login`, options),
      /** Completes a login with the URL that the browser was redirected to. */
      completeLogin: (redirect: string) => post<SignIn>("/v1/sign-ins:complete", { redirect }),
      logout: (id: string) =>
        http.empty({ method: "POST", path: `/v1/plugin-bindings/${pathSegment(id)}:logout` }),
      /** Accepts the changed definition of one tool or of all. `revision` is the one that was reviewed. */
      accept: (id: string, export_id = "*", revision?: number) =>
        post<Definitions>(`/v1/plugin-bindings/${pathSegment(id)}:accept`, {
          export_id,
          ...(revision === undefined ? {} : { revision }),
        }),
    },
    /** Instrument plugins; for admins only. */
    instruments: {
      /** `probe` also starts and checks plugins that are not running. */
      health: async (timeout_ms: number, { probe }: { probe: boolean }) =>
        (
          await get<ListOf<InstrumentHealthReport>>("/v1/instrument-plugins/health", {
            timeout_ms,
            probe: probe ? 1 : 0,
          })
        ).items,
    },
    /** Folders on the host; admin token only. */
    workspaces: {
      list: async () => (await get<{ items: WorkspaceFolder[] }>("/v1/workspaces")).items,
      review: (path: string, kind: WorkspaceFolder["kind"] = "workspace") =>
        post<WorkspaceReview>("/v1/workspaces:review", { path, kind }),
      trust: (folder: Partial<WorkspaceTrust> & { path: string }) =>
        postWithProgress<WorkspaceFolder>("/v1/workspaces", folder),
      untrust: (id: string) => remove(`/v1/workspaces/${pathSegment(id)}`),
      /** Yields the activity from now on, until the signal is aborted. */
      async *watch(id: string, options: FollowOptions = {}): AsyncGenerator<WorkspaceActivity> {
        const path = `/v1/workspaces/${pathSegment(id)}/activity`;
        for await (const { data } of follow(http, path, options, () => false))
          yield JSON.parse(data) as WorkspaceActivity;
      },
    },
    exports: {
      list: async (kind: ExportKind) => (await get<ListOf<DiscoveredExport>>(LIST_PATHS[kind])).items,
    },
  };
}

/** JSON for a header, which carries ASCII only. */
function toAsciiJson(value: object): string {
  return JSON.stringify(value).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
