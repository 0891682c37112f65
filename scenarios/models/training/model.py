"""The two models in PyTorch, with the tensor names of their Hugging Face checkpoints.

Written from the papers' formulas, not from the engine: rotary embedding in half-split pairs for
Llama and in interleaved ones for DeepSeek; multi-head latent attention expanded to plain heads,
where the engine absorbs; experts computed for all tokens and weighted, where the engine sorts.
"""
import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs ** -0.5)
    return layer


def angles(config, dims, length):
    """cos and sin of position times frequency, [length, dims / 2]."""
    pair = torch.arange(0, dims, 2, dtype=torch.float64) / dims
    turn = torch.arange(length, dtype=torch.float64)[:, None] * config["rope_theta"] ** -pair
    return torch.cos(turn).float(), torch.sin(turn).float()


def rotate(a, b, cos, sin):
    return a * cos - b * sin, b * cos + a * sin


def rope_half(x, cos, sin):
    """Pairs (i, i + dims / 2)."""
    return torch.cat(rotate(*x.chunk(2, dim=-1), cos, sin), dim=-1)


def rope_interleaved(x, cos, sin):
    """Pairs (2i, 2i + 1)."""
    return torch.stack(rotate(x[..., 0::2], x[..., 1::2], cos, sin), dim=-1).flatten(-2)


def attend(q, k, v):
    """Causal attention over [batch, heads, length, width]."""
    length = q.shape[2]
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    mask = torch.ones(length, length, dtype=torch.bool).triu(1)
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


class GroupedAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.width = (
            c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"])
        self.q_proj = linear(c["hidden_size"], self.heads * self.width)
        self.k_proj = linear(c["hidden_size"], self.kv_heads * self.width)
        self.v_proj = linear(c["hidden_size"], self.kv_heads * self.width)
        self.o_proj = linear(self.heads * self.width, c["hidden_size"])

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape

        def split(y, heads):
            return y.view(batch, length, heads, self.width).transpose(1, 2)

        q = rope_half(split(self.q_proj(x), self.heads), cos, sin)
        k = rope_half(split(self.k_proj(x), self.kv_heads), cos, sin)
        v = split(self.v_proj(x), self.kv_heads)
        group = self.heads // self.kv_heads
        out = attend(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))
        return self.o_proj(out.transpose(1, 2).flatten(2))


class LatentAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.latent = c["num_attention_heads"], c["kv_lora_rank"]
        self.nope, self.rope, self.value = (
            c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"])
        hidden, rank = c["hidden_size"], c["q_lora_rank"]
        self.q_a_proj = linear(hidden, rank)
        self.q_a_layernorm = Norm(rank, c["rms_norm_eps"])
        self.q_b_proj = linear(rank, self.heads * (self.nope + self.rope))
        self.kv_a_proj_with_mqa = linear(hidden, self.latent + self.rope)
        self.kv_a_layernorm = Norm(self.latent, c["rms_norm_eps"])
        self.kv_b_proj = linear(self.latent, self.heads * (self.nope + self.value))
        self.o_proj = linear(self.heads * self.value, hidden)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.view(batch, length, self.heads, -1).transpose(1, 2)
        q_nope, q_rope = q.split((self.nope, self.rope), dim=-1)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split((self.latent, self.rope), dim=-1)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent))
        kv = kv.view(batch, length, self.heads, -1).transpose(1, 2)
        k_nope, v = kv.split((self.nope, self.value), dim=-1)
        k_rope = rope_interleaved(k_rope[:, None], cos, sin).expand(-1, self.heads, -1, -1)
        q = torch.cat((q_nope, rope_interleaved(q_rope, cos, sin)), dim=-1)
        out = attend(q, torch.cat((k_nope, k_rope), dim=-1), v)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.gate_proj, self.up_proj = linear(hidden, width), linear(hidden, width)
        self.down_proj = linear(width, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Gate(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(c["n_routed_experts"], c["hidden_size"]) *
                                   c["hidden_size"] ** -0.5)
        self.register_buffer("e_score_correction_bias", torch.zeros(c["n_routed_experts"]))


class Experts(nn.Module):
    """Sigmoid scores; the bias decides who is chosen, never the weight (DeepSeek-V3)."""

    def __init__(self, c):
        super().__init__()
        hidden, width = c["hidden_size"], c["moe_intermediate_size"]
        self.gate = Gate(c)
        self.experts = nn.ModuleList(Mlp(hidden, width) for _ in range(c["n_routed_experts"]))
        self.shared_experts = Mlp(hidden, width * c["n_shared_experts"])
        self.top, self.factor = c["num_experts_per_tok"], c["routed_scaling_factor"]
        self.load = None

    def forward(self, x):
        score = torch.sigmoid(F.linear(x, self.gate.weight))
        chosen = (score + self.gate.e_score_correction_bias).topk(self.top, dim=-1).indices
        mask = torch.zeros_like(score).scatter(-1, chosen, 1.0)
        self.load = mask.detach().flatten(0, -2).mean(0)
        weight = score * mask
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * self.factor
        out = self.shared_experts(x)
        for i, expert in enumerate(self.experts):
            out = out + weight[..., i:i + 1] * expert(x)
        return out

    def balance(self, rate):
        """Moves the bias towards experts that got less than their share."""
        self.gate.e_score_correction_bias += rate * torch.sign(self.load.mean() - self.load)


class Layer(nn.Module):
    def __init__(self, c, index):
        super().__init__()
        mla = "kv_lora_rank" in c
        self.input_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = LatentAttention(c) if mla else GroupedAttention(c)
        self.post_attention_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        moe = mla and index >= c["first_k_dense_replace"]
        self.mlp = Experts(c) if moe else Mlp(c["hidden_size"], c["intermediate_size"])

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        nn.init.normal_(self.embed_tokens.weight, std=0.1)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.lm_head = linear(config["hidden_size"], config["vocab_size"])
        depth = (2 * config["num_hidden_layers"]) ** -0.5
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    weight *= depth

    def forward(self, token):
        dims = self.config.get("qk_rope_head_dim", self.config.get("head_dim"))
        cos, sin = angles(self.config, dims, token.shape[1])
        x = self.model.embed_tokens(token)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.model.norm(x))
