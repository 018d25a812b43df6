/** The properties of an error code. Each constructor below fixes the family. */
export interface ErrorSpec {
  family: "wire" | "plugin" | "refusal" | "fault";
  http: number;
  retryable: boolean;
  description: string;
  remedy: string;
}

export const wireSpec = (http: number, retryable: boolean, description: string, remedy: string) =>
  ({ family: "wire", http, retryable, description, remedy }) as const satisfies ErrorSpec;
export const pluginSpec = (http: number, retryable: boolean, description: string, remedy: string) =>
  ({ family: "plugin", http, retryable, description, remedy }) as const satisfies ErrorSpec;
export const refusalSpec = (http: number, description: string, remedy: string, retryable = false) =>
  ({ family: "refusal", http, retryable, description, remedy }) as const satisfies ErrorSpec;
export const faultSpec = (http: number, retryable: boolean, description: string, remedy: string) =>
  ({ family: "fault", http, retryable, description, remedy }) as const satisfies ErrorSpec;
