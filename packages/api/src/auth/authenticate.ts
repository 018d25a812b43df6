/**
 * Credential → Caller, once per request. A header token wins over the cookie. The admin acts in the default
 * project unless Backplane-Org and Backplane-Project say otherwise; nobody else may send those headers.
 */
import { hash, timingSafeEqual } from "node:crypto";
import { BackplaneError } from "@backplane/contract";
import { OrgIdSchema, ProjectIdSchema } from "@backplane/contract/schema";
import type { Caller, Kernel } from "@backplane/kernel";
import type { IncomingHttpHeaders } from "node:http";
import { checkRequest } from "../check-request.ts";
import type { HostCheck } from "./hosts.ts";
import { type SignIn, sessionCookie } from "./sign-in.ts";

const DEFAULT_ORG = "org_local";
const DEFAULT_PROJECT = "proj_default";

const ADMIN: Caller = Object.freeze({
  actor: "admin",
  scope: Object.freeze({ org_id: DEFAULT_ORG, project_id: DEFAULT_PROJECT }),
  role: "owner",
  scopes: Object.freeze(["admin"] as const),
  admin: true,
});

export interface Authenticator {
  /** Synchronous for the admin, so that the common case costs no promise. Throws or rejects with auth.*. */
  authenticate(headers: IncomingHttpHeaders, mutating: boolean): Caller | Promise<Caller>;
}

export function createAuthenticator(deps: {
  keys: Pick<Kernel["keys"], "authenticate">;
  admin_token_sha256: string;
  sign_in: SignIn;
  hosts: HostCheck;
}): Authenticator {
  const expected = Buffer.from(deps.admin_token_sha256, "hex");
  if (expected.length !== 32)
    throw new BackplaneError("config.invalid", "The admin token's hash must be 64 hex digits.");

  const last = rememberOne();

  return {
    authenticate(headers, mutating) {
      const header = headers.authorization;
      if (header === undefined) return byCookie(headers, mutating);
      if (last.is(header)) return adminIn(headers);
      const token = bearer(header);
      if (token.startsWith("bpk_") || token.startsWith("vai_dlg_")) return byKey(headers, token);
      if (!timingSafeEqual(hash("sha256", token, "buffer"), expected))
        throw new BackplaneError("auth.invalid");
      last.keep(header);
      return adminIn(headers);
    },
  };

  function byCookie(headers: IncomingHttpHeaders, mutating: boolean): Caller {
    const cookie = sessionCookie(headers.cookie);
    if (cookie === null) throw new BackplaneError("auth.missing");
    if (!deps.sign_in.holds(cookie))
      throw new BackplaneError("auth.invalid", "The sign-in has ended.", {
        fix: "Run `backplane open` for a new sign-in link.",
      });
    // A cookie travels by itself, so a change must also prove where it comes from.
    if (mutating && !deps.hosts.sameOrigin(headers)) throw new BackplaneError("auth.origin");
    return adminIn(headers);
  }

  async function byKey(headers: IncomingHttpHeaders, token: string): Promise<Caller> {
    const proof = headers["backplane-listener"];
    const caller = await deps.keys.authenticate(token, typeof proof === "string" ? proof : undefined);
    if (headers["backplane-org"] !== undefined || headers["backplane-project"] !== undefined)
      throw new BackplaneError("auth.scope", "Only the admin token may choose another org or project.", {
        details: { needs: "admin" },
        fix: "Leave out Backplane-Org and Backplane-Project; a key always acts in its own scope.",
      });
    return caller;
  }
}

/**
 * The last admin header that was found good. Comparing its bytes, in constant time, costs a tenth of hashing the
 * same token again for every request.
 */
function rememberOne() {
  let good = Buffer.alloc(0);
  let shown = Buffer.alloc(0);
  return {
    keep(header: string): void {
      good = Buffer.from(header);
      shown = Buffer.alloc(good.length);
    },
    is(header: string): boolean {
      if (header.length === 0 || header.length !== good.length) return false;
      return shown.write(header) === good.length && timingSafeEqual(shown, good);
    },
  };
}

function bearer(header: string): string {
  const token = /^Bearer +(\S+)$/i.exec(header)?.[1];
  if (token === undefined)
    throw new BackplaneError("auth.invalid", "The Authorization header is not `Bearer TOKEN`.");
  return token;
}

function adminIn(headers: IncomingHttpHeaders): Caller {
  const org = headers["backplane-org"];
  const project = headers["backplane-project"];
  if (org === undefined && project === undefined) return ADMIN;
  const org_id = org === undefined ? DEFAULT_ORG : (checkRequest(OrgIdSchema, "header", org) as string);
  let project_id: string | null = DEFAULT_PROJECT;
  if (project === "*" || project === "") project_id = null;
  else if (project !== undefined) project_id = checkRequest(ProjectIdSchema, "header", project) as string;
  return { ...ADMIN, scope: { org_id, project_id } };
}
