import { serve } from "@backplane/sdk";
import { plugin } from "./codex.ts";

serve(plugin);
