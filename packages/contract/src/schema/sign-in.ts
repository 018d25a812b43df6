/**
 * The gateway's OAuth sign-in to the server of a binding. Tokens and client secrets are never returned; the view shows
 * who signed in, where, with which scopes, and whether the sign-in is still valid.
 */
import { z } from "zod";
import { TimestampSchema } from "./scalars.ts";

/** A scope as in RFC 6749: printable, without quotes and backslashes. */
const ScopeTextSchema = z
  .string()
  .max(4_096)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/, "separate scopes with one space");

export const SignInBeginSchema = z.strictObject({
  client_id: z
    .string()
    .min(1)
    .max(2_048)
    .optional()
    .describe("a client that is already registered with the authorization server"),
  client_secret: z.string().min(1).max(8_192).optional(),
  private_key: z
    .string()
    .min(1)
    .max(16_384)
    .optional()
    .describe("PKCS#8 in PEM, for private_key_jwt; needs client_id"),
  grant: z
    .enum(["authorization_code", "client_credentials"])
    .default("authorization_code")
    .describe("client_credentials: the gateway signs in as itself, without a person"),
  scope: ScopeTextSchema.optional().describe("instead of the scope that the server requests"),
});

export const SignInStartedSchema = z.object({
  status: z.enum(["pending", "signed_in"]),
  start_url: z
    .string()
    .nullable()
    .describe(
      "for a browser that can reach the gateway; only the first browser that opens it can finish the sign-in. Null when no person is needed",
    ),
  authorization_url: z
    .string()
    .nullable()
    .describe(
      "for a browser that cannot reach the gateway; pass the final URL of the browser to completeSignIn",
    ),
  redirect_uri: z.string().nullable(),
  expires_at: TimestampSchema.nullable(),
});

export const SignInCompleteSchema = z.strictObject({
  redirect: z.string().min(1).max(16_384).describe("the complete address that the browser was redirected to"),
});

export const SignInSchema = z.object({
  binding_id: z.string(),
  status: z.enum(["signed_out", "needed", "signed_in"]),
  /** Why a sign-in is needed. */
  reason: z.string().nullable(),
  fix: z.string().nullable(),
  issuer: z.string().nullable(),
  resource: z.string().nullable(),
  client_id: z.string().nullable(),
  grant: z.enum(["authorization_code", "client_credentials"]).nullable(),
  scope: z.string().nullable().describe("the requested scope"),
  expires_at: TimestampSchema.nullable().describe(
    "expiry of the access token, which is renewed automatically if possible",
  ),
  renewable: z.boolean(),
  signed_in_by: z.string().nullable(),
  signed_in_at: TimestampSchema.nullable(),
  /** The latest attempt. */
  login: z
    .object({
      status: z.enum(["pending", "taken", "done", "failed"]),
      message: z.string().nullable(),
      begun_by: z.string(),
      expires_at: TimestampSchema,
    })
    .nullable(),
});

export type SignInBegin = z.input<typeof SignInBeginSchema>;
export type SignInStarted = z.infer<typeof SignInStartedSchema>;
export type SignIn = z.infer<typeof SignInSchema>;
