/** The words of the matrix: who asks, and whom a change reaches. */
import type { KeyScope } from "@backplane/contract";

/** Credentials, from none to the host's own. Keys are an owner's and hold the scope of the case. */
export const WHO = [
  "nobody",
  /** Of the project, with every scope but the one that is needed. */
  "unscoped",
  "otherProject",
  "project",
  "projectAdmin",
  "foreignOrg",
  "org",
  "host",
] as const;
export type Who = (typeof WHO)[number];

/**
 * - own: creates in the caller's own scope, so whoever holds the scope may.
 * - project: an object of one project. org: it serves every project. named: as org, found by its name inside an org, so that
 *   another org's credential names an object of its own.
 * - default: serves every org; the default org as a whole decides. host: beyond any org.
 */
export type Reach = "own" | "project" | "org" | "named" | "default" | "host";

export interface Request {
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Case {
  object: string;
  /** `any`: every credential will do. */
  scope: KeyScope | "any" | "host";
  reach: Reach;
  /** Makes the object anew. */
  request(fixture: ScopeFixture): Promise<Request> | Request;
  /** Answers to those who may, besides 2xx: nothing was prepared that could succeed. */
  also?: readonly number[];
  /** Where a credential is answered otherwise than `reach` says, with the reason beside it. */
  except?: Partial<Record<Who, readonly number[]>>;
}

/** What the cases make their objects with. */
export interface ScopeFixture {
  /** Unlike every other. */
  next(stem: string): string;
  admin(method: string, path: string, body?: unknown): Promise<{ [field: string]: unknown }>;
  as(
    who: Who,
    scope: KeyScope,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ [field: string]: unknown }>;
  binding(org_wide: boolean): Promise<string>;
  /** Installs a version of its own; answers its id. */
  package(): Promise<string>;
  /** The same, and answers the version. */
  version(): Promise<string>;
  archive(): Promise<Buffer>;
  folder(): string;
  provider(): Promise<string>;
}

/** What is answered to those who may, when there is nothing to change. */
export const NONE = [400, 404, 409, 422];
export const missing = (path: string, body: unknown = {}) => ({
  request: () => ({ path, body }),
  also: NONE,
});
