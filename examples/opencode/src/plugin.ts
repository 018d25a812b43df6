import { serve } from "@backplane/sdk";
import { plugin } from "./opencode.ts";

serve(plugin);
