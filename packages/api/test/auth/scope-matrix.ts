/** The types of the matrix: the credentials, and whom a change affects. */
import type { KeyScope } from "@backplane/contract";

/** Credentials, from none to the host's own. Keys have the role owner and the scope of the case. */
export const CREDENTIAL_KINDS = [
  "nobody",
  /** A key of the project with every scope except the required one. */
  "missingScope",
  "otherProject",
  "project",
  "projectAdmin",
  "foreignOrg",
  "org",
  "host",
] as const;
export type CredentialKind = (typeof CREDENTIAL_KINDS)[number];

/**
 * - own: affects only the caller's own project or org, so every caller with the required key scope may send the
 *   request.
 * - project: an object of one project. org: an object that serves every project. named: like org, but found by its name
 *   inside an org, so another org's credential refers to its own object.
 * - default: serves every org and is changed by a credential of the default org. host: belongs to no org.
 */
export type Reach = "own" | "project" | "org" | "named" | "default" | "host";

export interface Request {
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Case {
  object: string;
  /** `any` accepts every credential. `host` requires the host's admin; the keys of the test get the scope admin. */
  scope: KeyScope | "any" | "host";
  reach: Reach;
  /** Creates a new object and returns the request that changes it. */
  request(fixture: ScopeFixture): Promise<Request> | Request;
  /** Statuses besides 2xx that authorized callers may get, because the test prepared no object for the request. */
  also?: readonly number[];
  /** Credentials whose status differs from that of `reach`, with the reason in a comment. */
  except?: Partial<Record<CredentialKind, readonly number[]>>;
}

/** Creates the objects of the cases. */
export interface ScopeFixture {
  /** A unique name. */
  next(stem: string): string;
  admin(method: string, path: string, body?: unknown): Promise<{ [field: string]: unknown }>;
  as(
    who: CredentialKind,
    scope: KeyScope,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ [field: string]: unknown }>;
  /** Binds a new version; the export is `echo` unless another one is specified. */
  binding(org_wide: boolean, export_id?: string): Promise<string>;
  /** Installs a new version and returns its id. */
  package(): Promise<string>;
  /** Installs a new version and returns the version. */
  version(): Promise<string>;
  archive(): Promise<Buffer>;
  folder(): string;
  provider(): Promise<string>;
}

/** The statuses for authorized callers when there is nothing to change. */
export const NOTHING_TO_CHANGE = [400, 404, 409, 422];
export const onMissingObject = (path: string, body: unknown = {}) => ({
  request: () => ({ path, body }),
  also: NOTHING_TO_CHANGE,
});
