"""Modules as users write them, for the engines to carry."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class PlainCNN(nn.Module):
    """Layers in attributes, functions between them, and a view: the tutorial's style."""

    def __init__(self, num_classes: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 5, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(5, 6, 2, bias=False)
        self.fc1 = nn.Linear(6 * 2 * 2, 9)
        self.fc2 = nn.Linear(9, num_classes)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = F.relu(self.conv2(x))
        x = x.view(-1, 6 * 2 * 2)
        return self.fc2(F.relu(self.fc1(x)))


class BatchNormCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(5)
        self.out = nn.Linear(5 * 4 * 4, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.out(x.view(x.size(0), -1))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.first = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, 4)
        self.down = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.out = nn.Linear(6, 4)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(x + self.norm(self.first(x)))
        return self.out(self.down(x).mean((2, 3)))


class BatchNormMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(128, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 4)
        )

    def forward(self, x):
        return self.layers(x)


class DropoutMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(128, 12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 4)
        )

    def forward(self, x):
        return self.layers(x)


class TanhMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(128, 12), nn.Tanh(), nn.Linear(12, 4))

    def forward(self, x):
        return self.layers(x)


class Refusing(nn.Module):
    """Looks at its values, which vmap refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(128, 4)

    def forward(self, x):
        y = self.out(x.flatten(1))
        return y * 2 if y.abs().max().item() > 100 else y


class Frozen(nn.Module):
    """A layer that does not train, one that nothing uses, and one used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(128, 8)
        self.first.weight.requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.twice = nn.Linear(8, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.sigmoid(self.first(x.flatten(1)))
        return self.out(self.twice(torch.tanh(self.twice(x))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(16, 6, batch_first=True)
        self.out = nn.Linear(6, 4)

    def forward(self, x):
        hidden, _ = self.cell(x.flatten(1).view(len(x), 8, 16))
        return self.out(hidden[:, -1])
