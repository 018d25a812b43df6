/** The context of a command: resolved flags, output, and a client that is created on first use. */
import { type Client, createClient } from "@backplane/client";
import type { Io } from "../terminal/io.ts";
import { createOutput, type Output } from "../terminal/output.ts";
import { locateHome, locateToken, locateUrl } from "./locate-gateway.ts";
import { createRequestObserver } from "./observe-request.ts";

export interface GlobalFlags {
  json?: boolean;
  quiet?: boolean;
  /** False with --no-input. */
  input?: boolean;
  yes?: boolean;
  url?: string;
  token?: string;
  home?: string;
  org?: string;
  project?: string;
}

export interface CommandContext {
  io: Io;
  flags: GlobalFlags;
  out: Output;
  home: string;
  url(): string;
  token(): string;
  client(): Client;
}

export function createContext(io: Io, flags: GlobalFlags): CommandContext {
  const home = locateHome(flags, io.env, io.cwd);
  const url = () => locateUrl(flags, io.env, home);
  const token = () => locateToken(flags, io.env, home);
  const out = createOutput(io, flags);
  let client: Client | undefined;
  return {
    io,
    flags,
    out,
    home,
    url,
    token,
    client() {
      client ??= createClient({
        url: url(),
        token: token(),
        headers: scopeHeaders(flags),
        observe: createRequestObserver(io, out),
      });
      return client;
    },
  };
}

/** The admin token acts in the default scope unless these headers specify another. */
export function scopeHeaders(flags: GlobalFlags): Record<string, string> {
  return {
    ...(flags.org === undefined ? {} : { "Backplane-Org": flags.org }),
    ...(flags.project === undefined ? {} : { "Backplane-Project": flags.project }),
  };
}
