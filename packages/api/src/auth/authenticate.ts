/**
 * Turns the credential of a request into a Caller. A token in the Authorization header takes precedence over the
 * cookie. The admin acts in the default project unless Backplane-Org and Backplane-Project select another one; no other
 * credential may send those headers.
 */
import { hash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { BackplaneError, TOKEN_PREFIXES } from "@backplane/contract";
import { OrgIdSchema, ProjectIdSchema } from "@backplane/contract/schema";
import { type Caller, type Kernel, withChannel } from "@backplane/ports";
import { checkRequest } from "../requests/check-request.ts";
import { type ConsoleLogin, readSessionCookie } from "./console-login.ts";
import type { HostCheck } from "./hosts.ts";

const DEFAULT_ORG = "org_local";
const DEFAULT_PROJECT = "proj_default";

/** The channel of endpoints that do not set their own. A delegated token keeps the channel of its call. */
const API_CHANNEL = "api";

const ADMIN: Caller = Object.freeze({
  actor: "admin",
  scope: Object.freeze({ org_id: DEFAULT_ORG, project_id: DEFAULT_PROJECT }),
  role: "owner",
  scopes: Object.freeze(["admin"] as const),
  admin: true,
  channel: API_CHANNEL,
});

export interface Authenticator {
  /**
   * Synchronous for the admin token and a console session, which need no read of the store. Throws or rejects with
   * auth.*, with request.invalid for an invalid Backplane-Org or Backplane-Project header, or with the error of the
   * store.
   */
  authenticate(headers: IncomingHttpHeaders, mutating: boolean): Caller | Promise<Caller>;
}

export function createAuthenticator(deps: {
  keys: Pick<Kernel["keys"], "authenticate">;
  admin_token_sha256: string;
  console_login: ConsoleLogin;
  hosts: HostCheck;
}): Authenticator {
  const expected = Buffer.from(deps.admin_token_sha256, "hex");
  if (expected.length !== 32)
    throw new BackplaneError("config.invalid", "The hash of the admin token must be 64 hex digits.");

  const verified = createVerifiedHeader();

  return {
    authenticate(headers, mutating) {
      const header = headers.authorization;
      if (header === undefined) return authenticateByCookie(headers, mutating);
      if (verified.matches(header)) return adminCallerFor(headers);
      const token = bearerToken(header);
      if (token.startsWith(TOKEN_PREFIXES.key) || token.startsWith(TOKEN_PREFIXES.delegation))
        return authenticateByKey(headers, token);
      if (!timingSafeEqual(hash("sha256", token, "buffer"), expected))
        throw new BackplaneError("auth.invalid");
      verified.remember(header);
      return adminCallerFor(headers);
    },
  };

  function authenticateByCookie(headers: IncomingHttpHeaders, mutating: boolean): Caller {
    const cookie = readSessionCookie(headers.cookie);
    if (cookie === null) throw new BackplaneError("auth.missing");
    if (!deps.console_login.isValid(cookie))
      throw new BackplaneError("auth.invalid", "The console session has expired or was ended.", {
        fix: "Run `backplane open` for a new login link.",
      });
    // Browsers attach cookies to requests from other sites too, so a write must also come from our own origin.
    if (mutating && !deps.hosts.sameOrigin(headers)) throw new BackplaneError("auth.origin");
    return adminCallerFor(headers);
  }

  async function authenticateByKey(headers: IncomingHttpHeaders, token: string): Promise<Caller> {
    const proof = headers["backplane-listener"];
    const caller = await deps.keys.authenticate(token, typeof proof === "string" ? proof : undefined);
    if (headers["backplane-org"] !== undefined || headers["backplane-project"] !== undefined)
      throw new BackplaneError(
        "auth.scope",
        "Only the admin token may choose another organization or project.",
        {
          details: { needs: "admin" },
          fix: "Leave out Backplane-Org and Backplane-Project; a key always acts in its own scope.",
        },
      );
    return withChannel(caller, API_CHANNEL);
  }
}

/**
 * The last Authorization header that held the admin token. Comparing its bytes in constant time costs a tenth of
 * hashing the same token again for every request (benchmark http.invoke.cpu).
 */
function createVerifiedHeader() {
  let expected = Buffer.alloc(0);
  let received = Buffer.alloc(0);
  return {
    remember(header: string): void {
      expected = Buffer.from(header);
      received = Buffer.alloc(expected.length);
    },
    matches(header: string): boolean {
      if (header.length === 0 || header.length !== expected.length) return false;
      return received.write(header) === expected.length && timingSafeEqual(received, expected);
    },
  };
}

function bearerToken(header: string): string {
  const token = /^Bearer +(\S+)$/i.exec(header)?.[1];
  if (token === undefined)
    throw new BackplaneError("auth.invalid", "The Authorization header must be `Bearer TOKEN`.");
  return token;
}

function adminCallerFor(headers: IncomingHttpHeaders): Caller {
  const org = headers["backplane-org"];
  const project = headers["backplane-project"];
  if (org === undefined && project === undefined) return ADMIN;
  const org_id = org === undefined ? DEFAULT_ORG : (checkRequest(OrgIdSchema, "header", org) as string);
  let project_id: string | null = DEFAULT_PROJECT;
  if (project === "*" || project === "") project_id = null;
  else if (project !== undefined) project_id = checkRequest(ProjectIdSchema, "header", project) as string;
  return { ...ADMIN, scope: { org_id, project_id } };
}
