/**
 * The peers of the benchmarks are installed by `npm run bench` alone. These declarations let `npm run check` read the
 * benchmarks without them.
 */
declare module "@anthropic-ai/sandbox-runtime";
declare module "ai";
declare module "ai/test";
declare module "vscode-jsonrpc/node";
