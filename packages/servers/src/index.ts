export { createDependencyCheck } from "./instruments/instruments.ts";
export { createServersModule } from "./servers-module.ts";
export { createTokenRevocation } from "./sign-ins/revoke-tokens.ts";
export { createSignInTokens } from "./sign-ins/tokens.ts";
