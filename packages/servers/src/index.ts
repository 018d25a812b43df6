export { createDefinitionsRefresher } from "./definitions/keep-definitions.ts";
export { createInstrumentAdminTools } from "./instruments/admin-tools.ts";
export { createDependencyCheck, createInstruments } from "./instruments/instruments.ts";
export { createApprovedRequest } from "./servers/ask-first.ts";
export { createRequestTool } from "./servers/request-tool.ts";
export { createServers } from "./servers/servers.ts";
export { createTokenRevocation } from "./sign-ins/revoke-tokens.ts";
export { createSignIns } from "./sign-ins/sign-ins.ts";
export { createSignInTokens } from "./sign-ins/tokens.ts";
