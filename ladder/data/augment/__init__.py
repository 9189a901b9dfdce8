"""How a training image is changed at random before a net reads it, on the host, image by image.

Every parameter is drawn from a stream named by data identity, purpose, epoch and example (`draws`), the same on every
machine and for every seed, so that a final differs only by arithmetic. What is done to whole batches on the device
(mixup, cutmix, erasing: ladder.train.mixing) has its parameters from here too (`rectangles`).
"""
