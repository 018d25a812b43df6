export { createKernel } from "./create-kernel.ts";
